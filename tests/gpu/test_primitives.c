/* test_primitives.c: each primitive of kernels/ on the GPU against the CPU: minimal cases, then tiles to 64 x 64 x 64.
 *
 * Needs nothing but the library and a kernel of its own (primitives.cu). Prints "N passed, M failed". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "cuda/driver.h"
#include "cuda/launch.h"
#include "tests/gpu/primitives_params.h"

enum { THREADS = 128, SIDE = PRIMITIVES_SIDE, ROOM = 1 << 21 /* bytes of each buffer */ };

#include "tests/gpu/primitives_host.h"

/* Run one primitive over the two inputs and bring `bytes` of the result into `host`. */
static int run(int what, uint32_t blocks, int m, int n, int k, size_t bytes) {
    const primitives_params params = {
        .a = at(a), .b = at(b), .out = at(out), .what = what, .m = m, .n = n, .k = k};
    const att_cuda_shape shape = {.grid = {blocks, 1, 1}, .threads = THREADS};
    memset(host, 0xff, bytes);
    return cu->MemcpyHtoD(out, host, bytes) == CUDA_SUCCESS &&
           att_cuda_launch(function, &shape, &params, sizeof params, NULL) == ATT_OK &&
           cu->CtxSynchronize() == CUDA_SUCCESS &&
           cu->MemcpyDtoH(host, out, bytes) == CUDA_SUCCESS;
}

/* One element of the left side against one of the right: exactly one sum may change. */
static void test_mma__single_elements__meet_where_they_should(void) {
    enum { CASES = 16 * 16 * 8 };
    static uint16_t left[CASES][16 * 16], right[CASES][16 * 8];
    memset(left, 0, sizeof left);
    memset(right, 0, sizeof right);
    for (int c = 0; c < CASES; c++) {
        const int i = c / 128, k = c / 8 % 16, j = c % 8;
        att_store(left[c], dtype, i * 16 + k, 3.0f);
        att_store(right[c], dtype, k * 8 + j, 5.0f);
    }
    put(a, left, sizeof left);
    put(b, right, sizeof right);
    int right_sums = run(PRIMITIVES_MMA, CASES, 0, 0, 0, CASES * 128 * sizeof(float));
    const float *sums = (const float *)(const void *)host;
    for (int c = 0; c < CASES; c++)
        for (int x = 0; x < 128; x++)
            right_sums &=
                sums[c * 128 + x] == (x / 8 == c / 128 && x % 8 == c % 8 ? 15.0f : 0.0f);
    check(right_sums, "mma: one element a side");
}

static void test_mma__whole_numbers__are_exact(void) {
    enum { CASES = 64 };
    static uint16_t left[CASES][16 * 16], right[CASES][16 * 8];
    uint32_t seed = 1;
    for (int c = 0; c < CASES; c++) {
        for (int x = 0; x < 256; x++)
            att_store(left[c], dtype, x, whole(&seed));
        for (int x = 0; x < 128; x++)
            att_store(right[c], dtype, x, whole(&seed));
    }
    put(a, left, sizeof left);
    put(b, right, sizeof right);
    int exact = run(PRIMITIVES_MMA, CASES, 0, 0, 0, CASES * 128 * sizeof(float));
    const float *sums = (const float *)(const void *)host;
    for (int c = 0; c < CASES; c++)
        for (int x = 0; x < 128; x++) {
            float sum = 0.0f;
            for (int k = 0; k < 16; k++)
                sum += att_load(left[c], dtype, x / 8 * 16 + k) *
                       att_load(right[c], dtype, k * 8 + x % 8);
            exact &= sums[c * 128 + x] == sum;
        }
    check(exact, "mma: 16 x 8 x 16");
}

/* Fill a matrix of SIDE x SIDE: whole numbers within rows x columns, zero to the end of the last chunk of eight, NaN
 * beyond, which nothing may read. */
static void fill(uint16_t *matrix, int rows, int columns, uint32_t *seed) {
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            const int chunk_end = (columns + 7) / 8 * 8;
            const float x = i < rows && j < columns     ? whole(seed)
                            : i < rows && j < chunk_end ? 0.0f
                                                        : NAN;
            att_store(matrix, dtype, i * SIDE + j, x);
        }
}

static void test_tile(int m, int n, int k, int kn) {
    static uint16_t left[SIDE * SIDE], right[SIDE * SIDE];
    uint32_t seed = (uint32_t)(m * 10000 + n * 100 + k);
    char what[64];
    fill(left, m, k, &seed);
    fill(right, kn ? k : n, kn ? n : k, &seed);
    put(a, left, sizeof left);
    put(b, right, sizeof right);
    int exact =
        run(kn ? PRIMITIVES_TILE_KN : PRIMITIVES_TILE, 1, m, n, k, SIDE * SIDE * sizeof(float));
    const float *sums = (const float *)(const void *)host;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int x = 0; x < k; x++)
                sum += att_load(left, dtype, i * SIDE + x) *
                       att_load(right, dtype, kn ? x * SIDE + j : j * SIDE + x);
            exact &= sums[i * SIDE + j] == sum;
        }
    snprintf(what, sizeof what, "tile %d x %d x %d, right side %s", m, n, k,
             kn ? "transposed by ldmatrix" : "as it lies");
    check(exact, what);
}

static void test_tiles__from_4_to_64__are_exact(void) {
    static const int sides[] = {1, 4, 8, 13, 16, 32, 48, 64};
    enum { SIDES = sizeof sides / sizeof sides[0] };
    for (int m = 0; m < SIDES; m++)
        for (int n = 0; n < SIDES; n++)
            for (int k = 0; k < SIDES; k++)
                for (int kn = 0; kn < 2; kn++)
                    test_tile(sides[m], sides[n], sides[k], kn);
}

/* Eight rows of one chunk column, read at once, must lie in eight different groups of four banks, and so must the
 * eight chunks of a row that eight threads store at once. */
static int conflict_free(const unsigned *bytes, int rows, int chunks) {
    for (int row = 0; row < rows; row += 8)
        for (int chunk = 0; chunk < chunks; chunk++) {
            unsigned groups = 0;
            for (int r = 0; r < 8; r++)
                groups |= 1u << bytes[(row + r) * chunks + chunk] / 16 % 8;
            if (groups != 0xff)
                return 0;
        }
    for (int row = 0; row < rows; row++)
        for (int chunk = 0; chunk < chunks; chunk += 8) {
            unsigned groups = 0;
            for (int c = 0; c < 8; c++)
                groups |= 1u << bytes[row * chunks + chunk + c] / 16 % 8;
            if (groups != 0xff)
                return 0;
        }
    return 1;
}

static void test_swizzle__every_pitch__moves_chunks_within_rows_without_conflicts(void) {
    for (int pitch = 128; pitch <= 512; pitch += 128) {
        const int rows = 64, chunks = pitch / 16;
        int sound = run(PRIMITIVES_SWIZZLE, 1, rows, pitch, 0,
                        (size_t)(rows * chunks) * sizeof(unsigned));
        const unsigned *bytes = (const unsigned *)(const void *)host;
        for (int row = 0; row < rows; row++) {
            uint32_t taken = 0;
            for (int chunk = 0; chunk < chunks; chunk++) {
                const int x = (int)bytes[row * chunks + chunk];
                sound &= x % 16 == 0 && x / pitch == row &&
                         x == row * pitch + ((chunk ^ row % 8) << 4);
                taken |= 1u << (x % pitch / 16);
            }
            sound &= taken == (uint32_t)((1ull << chunks) - 1);
        }
        check(sound && conflict_free(bytes, rows, chunks), "swizzle");
    }
}

static void test_copies__arrive_whole(void) {
    static const int counts[] = {1, 127, 128, 129, 1000, 1024};
    uint32_t words[4 * 1024], seed = 7;
    for (int x = 0; x < 4 * 1024; x++)
        words[x] = seed = seed * 1664525u + 1013904223u;
    put(a, words, sizeof words);
    for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++)
        for (int what = PRIMITIVES_COPY; what <= PRIMITIVES_GROUPS; what++) {
            const size_t bytes = (size_t)counts[n] * 16;
            int whole_copy =
                run(what, 1, 0, 0, counts[n], bytes + 16) && !memcmp(host, words, bytes);
            for (size_t x = bytes; x < bytes + 16; x++)
                whole_copy &= host[x] == 0xff;
            check(whole_copy, what == PRIMITIVES_COPY ? "16-byte loads and stores"
                                                      : "async copies in groups");
        }
}

static void test_reduce__every_lane_gets_the_result(void) {
    for (uint32_t seed = 1; seed <= 20; seed++) {
        float x[32], most = -INFINITY, sum = 0.0f;
        uint32_t state = seed;
        for (int lane = 0; lane < 32; lane++) {
            x[lane] = whole(&state) * 3.0f - (float)lane;
            most = fmaxf(most, x[lane]);
            sum += x[lane];
        }
        put(a, x, sizeof x);
        int sound = run(PRIMITIVES_REDUCE, 1, 0, 0, 0, 128 * sizeof(float));
        const float *got = (const float *)(const void *)host;
        for (int lane = 0; lane < 32; lane++) {
            const float *quad = x + lane / 4 * 4;
            sound &= got[lane] == fmaxf(fmaxf(quad[0], quad[1]), fmaxf(quad[2], quad[3]));
            sound &= got[lane + 32] == quad[0] + quad[1] + quad[2] + quad[3];
            sound &= got[lane + 64] == most && got[lane + 96] == sum;
        }
        check(sound, "reductions over lanes");
    }
}

enum { SAMPLES = 100000 };
static float sample[SAMPLES];

static int run_math(float from, float to) {
    for (int i = 0; i < SAMPLES; i++)
        sample[i] = from + (to - from) * (float)i / (SAMPLES - 1);
    put(a, sample, sizeof sample);
    return run(PRIMITIVES_MATH, 1, 0, 0, SAMPLES, 2 * sizeof sample);
}

static void test_math__errors__are_what_the_header_says(void) {
    const float *got = (const float *)(const void *)host;
    double worst = 0.0;
    int ran = run_math(-120.0f, 120.0f);
    for (int i = 0; i < SAMPLES; i++)
        worst = fmax(worst, fabs((double)got[i] / exp2((double)sample[i]) - 1.0));
    printf("exp2_fast: relative error %.2e\n", worst);
    check(ran && worst <= 0x1p-22, "exp2_fast to 2 ulp");

    worst = 0.0;
    ran = run_math(1e-6f, 100.0f);
    for (int i = 0; i < SAMPLES; i++) {
        const double exact = log2((double)sample[i]);
        worst = fmax(worst, fabs((double)got[SAMPLES + i] - exact) / fmax(fabs(exact), 1.0));
    }
    printf("log2_fast: error %.2e of max(|y|, 1)\n", worst);
    check(ran && worst <= 0x1p-21, "log2_fast");
}

static void test_math__ends_of_the_range__give_the_limits(void) {
    const float ends[] = {-INFINITY, -1000.0f, 0.0f, INFINITY, 1000.0f, -0.0f, NAN};
    const float want[2][6] = {{0.0f, 0.0f, 1.0f, INFINITY, INFINITY, 1.0f},
                              {NAN, NAN, -INFINITY, INFINITY, 0.0f, -INFINITY}};
    put(a, ends, sizeof ends);
    int sound = run(PRIMITIVES_MATH, 1, 0, 0, 7, 2 * sizeof ends);
    const float *got = (const float *)(const void *)host;
    for (int f = 0; f < 2; f++) {
        for (int i = 0; i < 6; i++)
            if (f != 1 || i != 4) /* log2(1000) is no limit */
                sound &=
                    isnan(want[f][i]) ? isnan(got[7 * f + i]) : got[7 * f + i] == want[f][i];
        sound &= isnan(got[7 * f + 6]) != 0;
    }
    check(sound, "exp2, log2 at the ends of the range");
}

static int same(float x, float y) {
    return isnan(x) ? isnan(y) : x == y && signbit(x) == signbit(y);
}

static void test_convert__every_pattern__as_on_the_cpu(void) {
    enum { PATTERNS = 1 << 16 };
    static uint16_t patterns[PATTERNS];
    for (int x = 0; x < PATTERNS; x++)
        patterns[x] = (uint16_t)x;
    put(a, patterns, sizeof patterns);
    int sound = run(PRIMITIVES_WIDEN, 1, 0, 0, PATTERNS, PATTERNS * sizeof(float));
    for (int x = 0; x < PATTERNS; x++)
        sound &= same(((const float *)(const void *)host)[x], att_load(patterns, dtype, x));
    check(sound, "every 16-bit pattern to float32");

    /* Around every 16-bit number: below, on and above the middle to the next. */
    static float numbers[4 * PATTERNS];
    for (int x = 0; x < PATTERNS; x++) {
        const float exact = att_load(patterns, dtype, x);
        const float next = att_load(patterns, dtype, (x + 1) % PATTERNS);
        const float middle = 0.5f * exact + 0.5f * next;
        numbers[4 * x] = exact;
        numbers[4 * x + 1] = middle;
        numbers[4 * x + 2] = nextafterf(middle, -INFINITY);
        numbers[4 * x + 3] = nextafterf(middle, INFINITY);
    }
    put(a, numbers, sizeof numbers);
    sound = run(PRIMITIVES_NARROW, 1, 0, 0, 4 * PATTERNS, 16 * PATTERNS);
    for (int copy = 0; copy < 2; copy++)
        for (int x = 0; x < 4 * PATTERNS; x++) {
            float want; /* room for any type */
            att_store(&want, dtype, 0, numbers[x]);
            sound &= same(att_load(host, dtype, (int64_t)copy * 4 * PATTERNS + x),
                          att_load(&want, dtype, 0));
        }
    check(sound, "float32 to 16 bits, ties to even");
}

static void test_type(att_cuda_device *device, att_dtype type, const char *id) {
    const att_cuda_kernel row = {.id = id,
                                 .source = "primitives",
                                 .targets = ATT_SM_ALL,
                                 .role = ATT_ROLE_RUNG,
                                 .dtype = type,
                                 .d_qk = 64,
                                 .d_v = 64,
                                 .tile_m = 64,
                                 .tile_n = 64,
                                 .stages = 1,
                                 .warps = 4};
    const att_cuda_source source = {.cache_dir = ""};
    dtype = type;
    if (att_cuda_function_load(&function, device, &row, &source) != ATT_OK) {
        check(0, "load the kernel");
        return;
    }
    test_mma__single_elements__meet_where_they_should();
    test_mma__whole_numbers__are_exact();
    test_tiles__from_4_to_64__are_exact();
    test_swizzle__every_pitch__moves_chunks_within_rows_without_conflicts();
    test_copies__arrive_whole();
    test_reduce__every_lane_gets_the_result();
    test_math__errors__are_what_the_header_says();
    test_math__ends_of_the_range__give_the_limits();
    test_convert__every_pattern__as_on_the_cpu();
}

int main(void) {
    att_cuda_device *device;
    if (att_cuda_device_open(&device, 0) != ATT_OK || att_cuda_device_enter(device) != ATT_OK) {
        printf("no GPU: %s\n", att_last_error()->text);
        return 3;
    }
    cu = att_cuda_device_driver(device);
    if (cu->MemAlloc(&a, ROOM) != CUDA_SUCCESS || cu->MemAlloc(&b, ROOM) != CUDA_SUCCESS ||
        cu->MemAlloc(&out, ROOM) != CUDA_SUCCESS) {
        printf("no memory on the GPU\n");
        return 3;
    }
    test_type(device, ATT_F16, "primitives_f16");
    test_type(device, ATT_BF16, "primitives_bf16");
    att_cuda_device_leave(device);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
