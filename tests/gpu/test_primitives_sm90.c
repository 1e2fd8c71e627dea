/* test_primitives_sm90.c: each primitive of Hopper on the GPU against the CPU, tensor maps encoded by the library.
 *
 * What waits at a barrier that never flips would wait forever: every launch has a few seconds, and one that takes longer ends the
 * program. Prints "N passed, M failed"; exits 3 where there is no GPU of compute capability 9.0. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/dtype.h"
#include "cuda/launch.h"
#include "cuda/tensor_maps.h"
#include "tests/gpu/primitives_sm90_params.h"

enum {
    SIDE = PRIMITIVES_SM90_SIDE,
    ROOM = 1 << 20,     /* bytes of each buffer */
    SHARED = 64 << 10,  /* of a block */
    LIMIT_SECONDS = 10, /* of a launch */
    CUDA_ERROR_NOT_READY = 600
};

#include "tests/gpu/primitives_host.h"

static att_cuda_device *device;
static CUstream
    stream; /* waits for the copies, which may still be under way when they return */

/* Until the stream is done; a kernel that hangs cannot be stopped but by ending the process. */
static int wait_for(const char *what) {
    CUresult code;
    const time_t started = time(NULL);
    while ((code = cu->StreamQuery(stream)) == CUDA_ERROR_NOT_READY) {
        if (time(NULL) - started > LIMIT_SECONDS) {
            printf("FAILED: %s: still runs after %d seconds\n%d passed, %d failed\n", what,
                   LIMIT_SECONDS, passed, failed + 1);
            fflush(stdout);
            _exit(1);
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return code == CUDA_SUCCESS;
}

/* Fill `out` with ones, run, and bring `bytes` of the result into `host`. */
static int run(const primitives_sm90_params *params, uint32_t blocks, uint32_t threads,
               size_t bytes, const char *what) {
    const att_cuda_shape shape = {.grid = {blocks, 1, 1}, .threads = threads, .shared = SHARED};
    memset(host, 0xff, bytes);
    return cu->MemcpyHtoD(out, host, bytes) == CUDA_SUCCESS &&
           att_cuda_launch(function, &shape, params, sizeof *params, stream) == ATT_OK &&
           wait_for(what) && cu->MemcpyDtoH(host, out, bytes) == CUDA_SUCCESS;
}

static primitives_sm90_params params_of(int what) {
    return (primitives_sm90_params){.a = at(a), .b = at(b), .out = at(out), .what = what};
}

static void load(const char *id, const char *source, att_dtype type, int warps) {
    const att_cuda_kernel row = {.id = id,
                                 .source = source,
                                 .targets = ATT_SM90,
                                 .role = ATT_ROLE_RUNG,
                                 .dtype = type,
                                 .d_qk = 64,
                                 .d_v = 64,
                                 .tile_m = 64,
                                 .tile_n = 64,
                                 .stages = 1,
                                 .warps = warps};
    const att_cuda_source no_cache = {.cache_dir = ""};
    dtype = type;
    check(att_cuda_function_load(&function, device, &row, &no_cache) == ATT_OK &&
              att_cuda_function_allow(function, SHARED) == ATT_OK,
          "load the kernel");
}

/* --------------------------------------------------------------------------------- wgmma */

static void test_product(int what, int n) {
    static const char *const names[] = {"wgmma, both in shared memory",
                                        "wgmma, left in registers, right by rows",
                                        "wgmma, left in registers, right by columns"};
    static uint16_t left[SIDE * SIDE], right[SIDE * 256];
    uint32_t seed = (uint32_t)(n * 10 + what);
    for (int i = 0; i < SIDE * SIDE; i++)
        att_store(left, dtype, i, whole(&seed));
    for (int i = 0; i < SIDE * n; i++)
        att_store(right, dtype, i, whole(&seed));
    put(a, left, sizeof left);
    put(b, right, sizeof right);
    primitives_sm90_params p = params_of(what);
    p.n = n;
    char text[96];
    snprintf(text, sizeof text, "%s, 64 x %d x 64", names[what - PRIMITIVES_WGMMA], n);
    int exact = run(&p, 1, 128, (size_t)(SIDE * n) * sizeof(float), text);
    const float *sums = (const float *)(const void *)host;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int x = 0; x < SIDE; x++)
                sum += att_load(left, dtype, i * SIDE + x) *
                       att_load(right, dtype,
                                what == PRIMITIVES_WGMMA_MN ? x * n + j : j * SIDE + x);
            exact &= sums[i * n + j] == sum;
        }
    check(exact, text);
}

static void test_wgmma__every_width__is_exact(void) {
    static const int widths[] = {32, 48, 64, 80, 96, 112, 128, 160, 176, 192, 256};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        for (int what = PRIMITIVES_WGMMA; what <= PRIMITIVES_WGMMA_MN; what++)
            test_product(what, widths[i]);
}

/* ------------------------------------------------------------------------------- copies */

/* A tensor of at most five axes, dense but for 16 elements after each row, in `a`. */
enum { TENSOR_MOST = 250000 };
static uint16_t tensor[TENSOR_MOST];

static att_tensor_walk walk_of(int rank, const int64_t *sizes, const int *boxes) {
    att_tensor_walk walk = {.rank = rank};
    int64_t stride = 1;
    for (int i = 0; i < rank; i++) {
        walk.axis[i].size = sizes[i];
        walk.axis[i].stride = stride;
        walk.axis[i].box = boxes[i];
        stride = i == 0 ? (sizes[0] + 7) / 8 * 8 + 16 : stride * sizes[i];
    }
    return walk;
}

/* Elements that the walk spans. */
static int64_t span_of(const att_tensor_walk *walk) {
    return walk->axis[walk->rank - 1].stride * walk->axis[walk->rank - 1].size;
}

/* Where the element of the box at `corner` lies that is column `col` of its row `row`; -1: outside of the tensor. */
static int64_t place_of(const att_tensor_walk *walk, const int *corner, int row, int col) {
    int64_t place = 0;
    for (int i = 0; i < walk->rank; i++) {
        int64_t x = corner[i];
        if (i == 0) {
            x += col;
        } else {
            x += row % walk->axis[i].box;
            row /= walk->axis[i].box;
        }
        if (x < 0 || x >= walk->axis[i].size)
            return -1;
        place += x * walk->axis[i].stride;
    }
    return place;
}

/* Element (row, col) of a tile of 64 columns as tma.cuh says it lies. */
static int swizzled(int row, int col) {
    return row * 64 + (((col / 8) ^ (row & 7)) * 8) + col % 8;
}

static int encode(primitives_sm90_params *p, const att_tensor_walk *walk, const int *corner,
                  CUdeviceptr where) {
    p->rows = 1;
    for (int i = 0; i < walk->rank; i++) {
        p->at[i] = corner[i];
        p->rows *= i > 0 ? walk->axis[i].box : 1;
    }
    return att_cuda_tensor_map_encode(&p->map, cu, dtype, walk, "test") == ATT_OK &&
           att_cuda_tensor_map_point(&p->map, cu, at(where), "test") == ATT_OK;
}

static void test_load(const att_tensor_walk *walk, const int *corner) {
    primitives_sm90_params p =
        params_of(walk->rank == 4 ? PRIMITIVES_TMA_LOAD_4D : PRIMITIVES_TMA_LOAD_5D);
    for (int i = 0; i < TENSOR_MOST; i++)
        tensor[i] = (uint16_t)(0x3c00 + i % 0x3ff); /* finite, not 0 */
    put(a, tensor, sizeof tensor);
    char text[96];
    snprintf(text, sizeof text, "tma: load %d-D at %d %d %d %d", walk->rank, corner[0],
             corner[1], corner[2], corner[3]);
    int sound = span_of(walk) <= TENSOR_MOST && encode(&p, walk, corner, a);
    sound = sound && run(&p, 1, 128, (size_t)p.rows * 128, text);
    const uint16_t *got = (const uint16_t *)(const void *)host;
    for (int row = 0; sound && row < p.rows; row++)
        for (int col = 0; col < 64; col++) {
            const int64_t place = place_of(walk, corner, row, col);
            sound &= got[swizzled(row, col)] == (place < 0 ? 0 : tensor[place]);
        }
    check(sound, text);
}

static void test_loads__inside_and_out__zeros_beyond_the_tensor(void) {
    static const int rows[] = {8, 64, 80, 96, 112, 128};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const att_tensor_walk walk =
            walk_of(4, (const int64_t[]){104, 131, 3, 2}, (const int[]){64, rows[i], 1, 1});
        test_load(&walk, (const int[]){0, 0, 0, 0});
        test_load(&walk, (const int[]){64, 16, 2, 1}); /* columns past the end */
        test_load(&walk, (const int[]){0, 100, 1, 1}); /* rows past the end */
        test_load(&walk, (const int[]){0, 131, 1, 0}); /* none there */
        test_load(&walk, (const int[]){0, 0, 1, -1});  /* a page that does not exist */
        test_load(&walk, (const int[]){0, 0, 0, 1 << 30});
    }
    for (int pack = 0; pack <= 4; pack++) {
        const int group = 1 << pack;
        const att_tensor_walk walk = walk_of(5, (const int64_t[]){72, group, 37, 2, 2},
                                             (const int[]){64, group, 64 / group, 1, 1});
        test_load(&walk, (const int[]){0, 0, 0, 0, 0});
        test_load(&walk, (const int[]){64, 0, 3, 1, 1});
        test_load(&walk, (const int[]){0, 0, 30, 1, 0});
    }
}

/* What lies in the tensor is written, and nothing else. */
static void test_store(const att_tensor_walk *walk, const int *corner) {
    primitives_sm90_params p = params_of(PRIMITIVES_TMA_STORE_5D);
    static uint16_t tile[64 * 64];
    for (int i = 0; i < 64 * 64; i++)
        tile[i] = (uint16_t)(1 + i);
    put(a, tile, sizeof tile);
    char text[96];
    snprintf(text, sizeof text, "tma: store at %d %d %d %d %d", corner[0], corner[1], corner[2],
             corner[3], corner[4]);
    int sound = span_of(walk) <= TENSOR_MOST && encode(&p, walk, corner, out);
    sound = sound && run(&p, 1, 128, sizeof tensor, text);
    memset(tensor, 0xff, sizeof tensor);
    for (int row = 0; row < p.rows; row++)
        for (int col = 0; col < 64; col++) {
            const int64_t place = place_of(walk, corner, row, col);
            if (place >= 0)
                tensor[place] = tile[row * 64 + col];
        }
    check(sound && memcmp(tensor, host, sizeof tensor) == 0, text);
}

static void test_stores__at_the_end__clipped(void) {
    for (int pack = 0; pack <= 4; pack++) {
        const int group = 1 << pack;
        const att_tensor_walk walk = walk_of(5, (const int64_t[]){72, group, 37, 2, 2},
                                             (const int[]){64, group, 16 / group, 1, 1});
        test_store(&walk, (const int[]){0, 0, 0, 0, 0});
        test_store(&walk, (const int[]){64, 0, 8, 1, 1});
        test_store(&walk, (const int[]){0, 0, 36, 1, 0});
        test_store(&walk, (const int[]){64, 0, 37, 0, 1});
    }
}

/* Two blocks of a cluster, each asking for half of what both get, round after round. */
static void test_multicast__both_blocks__have_the_whole(void) {
    enum { ROWS = 64, ROUNDS = 5 };
    const att_tensor_walk walk =
        walk_of(4, (const int64_t[]){64, 300, 2, 2}, (const int[]){64, ROWS / 2, 1, 1});
    const int corner[] = {0, 10, 1, 1};
    primitives_sm90_params p = params_of(0);
    for (int i = 0; i < TENSOR_MOST; i++)
        tensor[i] = (uint16_t)(i * 7 + 1);
    put(a, tensor, sizeof tensor);
    int sound = span_of(&walk) <= TENSOR_MOST && encode(&p, &walk, corner, a);
    p.rows = ROWS;
    p.k = ROUNDS;
    sound = sound && run(&p, 2, 128, 2 * ROUNDS * ROWS * 128, "tma: multicast");
    const uint16_t *got = (const uint16_t *)(const void *)host;
    for (int block = 0; block < 2; block++)
        for (int round = 0; round < ROUNDS; round++)
            for (int row = 0; sound && row < ROWS; row++)
                for (int col = 0; col < 64; col++) {
                    const int first[] = {0, 10 + round * ROWS + row, 1, 1};
                    const int64_t place = place_of(&walk, first, 0, col);
                    sound &= got[(block * ROUNDS + round) * ROWS * 64 + swizzled(row, col)] ==
                             (place < 0 ? 0 : tensor[place]);
                }
    check(sound, "tma: multicast to two blocks of a cluster");
}

/* ------------------------------------------------------------------------------ barriers */

static void test_mbarrier__many_phases__hand_over_in_order(void) {
    static const int rounds[] = {1, 2, 3, 4, 101};
    for (size_t r = 0; r < sizeof rounds / sizeof rounds[0]; r++) {
        primitives_sm90_params p = params_of(PRIMITIVES_PHASES);
        p.k = rounds[r];
        int sound = run(&p, 1, 128, (size_t)p.k * 32 * sizeof(int), "mbarrier phases");
        const int *got = (const int *)(const void *)host;
        for (int i = 0; i < 32 * p.k; i++)
            sound &= got[i] == 1000 * (i / 32) + 31 - i % 32;
        check(sound, "mbarrier: every phase hands over its own numbers");
    }
}

/* 384 threads: those of the first warpgroup give registers up, the others take them, and then work in turn. */
static void test_warpgroups__registers_and_turns(void) {
    enum { THREADS = 384, HELD = 192, TURNS = 128 };
    int numbers[HELD];
    for (int i = 0; i < HELD; i++)
        numbers[i] = i * i - 50 * i;
    put(a, numbers, sizeof numbers);
    const primitives_sm90_params p = params_of(0);
    int sound = run(&p, 1, THREADS, (THREADS + TURNS) * sizeof(int), "setmaxnreg");
    const int *got = (const int *)(const void *)host;
    for (int thread = 0; thread < THREADS; thread++) {
        uint32_t held[HELD], sum = 0; /* as the GPU counts, wrapping */
        for (int i = 0; i < HELD; i++)
            held[i] = (uint32_t)(numbers[i] + thread);
        for (int i = 0; i < HELD; i++)
            held[HELD - 1 - i] += held[i] * (uint32_t)(i + 1);
        for (int i = 0; i < HELD; i++)
            sum += held[i] ^ (uint32_t)i;
        sound &= (uint32_t)got[thread] == (thread < 128 ? 0u : sum);
    }
    check(sound, "setmaxnreg: 192 numbers a thread live at once");
    for (int turn = 0; turn < TURNS; turn++)
        sound &= got[THREADS + turn] == 1 + turn % 2;
    check(sound, "named barriers: two warpgroups take turns");
}

/* Kernels that may overlap, each reading what all before it wrote. */
static void test_griddepcontrol__a_chain__each_waits_for_the_one_before(void) {
    enum { LINKS = 20 };
    const att_cuda_shape shape = {
        .grid = {1, 1, 1}, .threads = 128, .shared = SHARED, .overlap = true};
    float chain[LINKS + 1];
    memset(chain, 0xff, sizeof chain); /* NaN */
    chain[0] = 1.0f;
    put(out, chain, sizeof chain);
    int sound = 1;
    for (int i = 0; i < LINKS; i++) {
        primitives_sm90_params p = params_of(PRIMITIVES_AFTER);
        p.a = at(out);
        p.out = (float *)at(out) + i + 1;
        p.k = i + 1;
        sound &= att_cuda_launch(function, &shape, &p, sizeof p, stream) == ATT_OK;
    }
    sound &=
        wait_for("griddepcontrol") && cu->MemcpyDtoH(chain, out, sizeof chain) == CUDA_SUCCESS;
    for (int i = 1; i <= LINKS; i++)
        sound &= chain[i] == ldexpf(1.0f, i - 1);
    check(sound, "griddepcontrol: a chain of kernels that overlap");
}

/* --------------------------------------------------------------------------------- others */

static void test_stmatrix__fragments__become_rows(void) {
    uint16_t square[16 * 16];
    for (int i = 0; i < 256; i++)
        square[i] = (uint16_t)(i * 31 + 7);
    put(a, square, sizeof square);
    const primitives_sm90_params p = params_of(PRIMITIVES_STMATRIX);
    const int ran = run(&p, 1, 128, sizeof square, "stmatrix");
    check(ran && memcmp(host, square, sizeof square) == 0, "stmatrix: 16 x 16");
}

static void test_times_zero__every_pattern__shows_what_is_not_finite(void) {
    enum { PATTERNS = 1 << 16 };
    static uint16_t patterns[PATTERNS];
    for (int x = 0; x < PATTERNS; x++)
        patterns[x] = (uint16_t)x;
    put(a, patterns, sizeof patterns);
    primitives_sm90_params p = params_of(PRIMITIVES_TIMES_ZERO);
    p.k = PATTERNS / 2;
    int sound = run(&p, 1, 128, sizeof patterns, "times_zero_plus");
    for (int x = 0; x < PATTERNS; x++) {
        const float got = att_load(host, dtype, x);
        sound &= isfinite(att_load(patterns, dtype, x)) ? got == 1.0f : isnan(got) != 0;
    }
    check(sound, "times_zero_plus: every 16-bit pattern");
}

static void test_type(att_dtype type, const char *id) {
    load(id, "primitives_sm90", type, 4);
    if (!function)
        return;
    test_wgmma__every_width__is_exact();
    test_loads__inside_and_out__zeros_beyond_the_tensor();
    test_stores__at_the_end__clipped();
    test_mbarrier__many_phases__hand_over_in_order();
    test_griddepcontrol__a_chain__each_waits_for_the_one_before();
    test_stmatrix__fragments__become_rows();
    test_times_zero__every_pattern__shows_what_is_not_finite();
}

int main(void) {
    if (att_cuda_device_open(&device, 0) != ATT_OK || att_cuda_device_enter(device) != ATT_OK) {
        printf("no GPU: %s\n", att_last_error()->text);
        return 3;
    }
    if (att_cuda_device_limits(device)->cc != 90) {
        printf("no GPU of compute capability 9.0\n");
        return 3;
    }
    cu = att_cuda_device_driver(device);
    if (cu->MemAlloc(&a, ROOM) != CUDA_SUCCESS || cu->MemAlloc(&b, ROOM) != CUDA_SUCCESS ||
        cu->MemAlloc(&out, ROOM) != CUDA_SUCCESS ||
        cu->StreamCreate(&stream, CU_STREAM_DEFAULT) != CUDA_SUCCESS) {
        printf("no memory on the GPU\n");
        return 3;
    }
    test_type(ATT_F16, "primitives_sm90_f16");
    test_type(ATT_BF16, "primitives_sm90_bf16");
    load("warpgroups_sm90", "warpgroups_sm90", ATT_F16, 12);
    if (function)
        test_warpgroups__registers_and_turns();
    load("cluster_sm90", "cluster_sm90", ATT_F16, 4);
    if (function)
        test_multicast__both_blocks__have_the_whole();
    att_cuda_device_leave(device);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
