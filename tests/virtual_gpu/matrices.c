/* matrices.c: 8 x 8 matrices of 16 bits that a warp holds, and their products (mma.sync). Lane
 * l holds elements 2 (l % 4) and the next one of row l / 4 of each matrix. */
#include <math.h>
#include <string.h>

#include "tests/virtual_gpu/ptx.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"
#include "tests/virtual_gpu/shared_memory.h"
#include "tests/virtual_gpu/warp.h"

enum { SIDE = 8, ROW_BYTES = 16 };

static uint32_t pair(uint16_t low, uint16_t high) {
    return (uint32_t)high << 16 | low;
}

static uint16_t half(uint64_t bits, int which) {
    return (uint16_t)(bits >> 16 * which);
}

/* ---- ldmatrix, stmatrix, movmatrix. Groups: count, transposed ---- */

static int matrices_of(const ptx_instruction *in) {
    return 1 << in->choice[0];
}

static void load(vgpu_warp *warp) {
    const ptx_instruction *in = ptx_frame_of(warp, 0)->instruction;
    const int count = matrices_of(in);
    const bool transposed = in->choice[1];
    uint16_t m[4][SIDE][SIDE];
    for (int l = 0; l < SIDE * count; l++) {
        const unsigned from = (unsigned)ptx_get(ptx_frame_of(warp, l), count);
        memcpy(m[l / SIDE][l % SIDE], shared_at(from, ROW_BYTES, ROW_BYTES, in->name),
               ROW_BYTES);
        shared_touch(warp->lanes[l], from, ROW_BYTES, SHARED_READ, in->name);
    }
    for (int l = 0; l < WARP_LANES; l++) {
        const int r = l / 4, c = l % 4 * 2;
        for (int i = 0; i < count; i++)
            ptx_set(ptx_frame_of(warp, l), i,
                    transposed ? pair(m[i][c][r], m[i][c + 1][r])
                               : pair(m[i][r][c], m[i][r][c + 1]));
    }
}

static void store(vgpu_warp *warp) {
    const ptx_instruction *in = ptx_frame_of(warp, 0)->instruction;
    const int count = matrices_of(in);
    const bool transposed = in->choice[1];
    uint16_t m[4][SIDE][SIDE];
    for (int l = 0; l < WARP_LANES; l++)
        for (int i = 0; i < 2 * count; i++) {
            const uint16_t x = half(ptx_get(ptx_frame_of(warp, l), 1 + i / 2), i % 2);
            const int r = l / 4, c = l % 4 * 2 + i % 2;
            m[i / 2][transposed ? c : r][transposed ? r : c] = x;
        }
    for (int l = 0; l < SIDE * count; l++) {
        const unsigned to = (unsigned)ptx_get(ptx_frame_of(warp, l), 0);
        char *place = shared_at(to, ROW_BYTES, ROW_BYTES, in->name);
        shared_touch(warp->lanes[l], to, ROW_BYTES, SHARED_WRITE, in->name);
        memcpy(place, m[l / SIDE][l % SIDE], ROW_BYTES);
    }
}

static void transpose(vgpu_warp *warp) {
    uint16_t m[SIDE][SIDE];
    for (int l = 0; l < WARP_LANES; l++)
        for (int e = 0; e < 2; e++)
            m[l / 4][l % 4 * 2 + e] = half(ptx_get(ptx_frame_of(warp, l), 1), e);
    for (int l = 0; l < WARP_LANES; l++)
        ptx_set(ptx_frame_of(warp, l), 0, pair(m[l % 4 * 2][l / 4], m[l % 4 * 2 + 1][l / 4]));
}

static void check_count(const ptx_frame *f) {
    if (f->instruction->count != matrices_of(f->instruction) + 1)
        ptx_fail_operand(f, 0);
}

static void ldmatrix(ptx_frame *f) {
    check_count(f);
    ptx_meet(f, load);
}

static void stmatrix(ptx_frame *f) {
    check_count(f);
    ptx_meet(f, store);
}

static void movmatrix(ptx_frame *f) {
    ptx_meet(f, transpose);
}

/* ---- mma.sync: D (16 x 8) = A (16 x K) B (K x 8) + C. Groups: type of A and B ---- */

enum { ROWS = 16, DEPTH_MAX = 16 };

typedef struct mma_operands {
    float a[ROWS][DEPTH_MAX], b[DEPTH_MAX][SIDE], c[ROWS][SIDE];
} mma_operands;

/* Registers of A: rows 0 to 7, rows 8 to 15, then the same for the next 8 columns; of B: 8 rows
 * each. */
static void read_lane(const ptx_frame *f, int lane, bool is_bf16, bool small_c,
                      mma_operands *out) {
    const int depth = f->instruction->option, row = lane / 4, column = lane % 4 * 2;
    const int c_words = small_c ? 2 : 4, a_words = depth / 4, b_words = depth / 8;
    const int a_at = c_words, b_at = a_at + a_words, c_at = b_at + b_words;
    for (int i = 0; i < 2 * a_words; i++)
        out->a[row + i / 2 % 2 * SIDE][column + i / 4 * SIDE + i % 2] =
            small_to_float(half(ptx_get(f, a_at + i / 2), i % 2), is_bf16);
    for (int i = 0; i < 2 * b_words; i++)
        out->b[column + i / 2 * SIDE + i % 2][row] =
            small_to_float(half(ptx_get(f, b_at + i / 2), i % 2), is_bf16);
    for (int i = 0; i < 4; i++)
        out->c[row + i / 2 * SIDE][column + i % 2] =
            small_c ? f16_to_float(half(ptx_get(f, c_at + i / 2), i % 2))
                    : ptx_get_float(f, c_at + i);
}

static void write_lane(ptx_frame *f, int lane, bool small_c, const mma_operands *from) {
    const int row = lane / 4, column = lane % 4 * 2;
    for (int i = 0; i < 2; i++) {
        const float *d = &from->c[row + i * SIDE][column];
        if (small_c) {
            ptx_set(f, i, pair(f16_from_float(d[0]), f16_from_float(d[1])));
            continue;
        }
        ptx_set_float(f, 2 * i, d[0]);
        ptx_set_float(f, 2 * i + 1, d[1]);
    }
}

/* A tensor core does not round: products and C are aligned to the largest exponent, truncated
 * to 25 bits, and their sum to 24. This reproduces the H200's answer to
 * b1h4hkv1s1sk300d64,f32,data=onehot. */
enum { KEPT_BITS = 25, SUM_BITS = 24, EXPONENT_BIAS = 127 };

static int stored_exponent(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int)(bits >> 23 & 0xff);
}

static float power_of_two(int exponent) {
    const uint32_t bits = (uint32_t)(exponent + EXPONENT_BIAS) << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A whole number of that many units, with its lower bits truncated. */
static float cut_sum(int32_t sum, float unit) {
    uint32_t magnitude = sum < 0 ? (uint32_t)-sum : (uint32_t)sum;
    const int bits = magnitude ? 32 - __builtin_clz(magnitude) : 0;
    if (bits > SUM_BITS)
        magnitude &= ~0u << (bits - SUM_BITS);
    return sum < 0 ? -((float)magnitude * unit) : (float)magnitude * unit;
}

/* So small or large that the units leave the range of float32. */
static bool is_extreme(float plain, float most) {
    const int exponent = stored_exponent(most) - EXPONENT_BIAS;
    return !isfinite(plain) || exponent < -100 || exponent > 126;
}

typedef struct mma_terms {
    float of[DEPTH_MAX + 1][SIDE]; /* products, then C */
    float most[SIDE], plain[SIDE];
} mma_terms;

static void find_terms(mma_terms *t, const float c[SIDE], const float *a, float b[][SIDE],
                       int depth) {
    for (int n = 0; n < SIDE; n++)
        t->most[n] = t->plain[n] = 0;
    for (int k = 0; k < depth; k++)
        for (int n = 0; n < SIDE; n++)
            t->of[k][n] = a[k] * b[k][n];
    memcpy(t->of[depth], c, sizeof t->of[depth]);
    for (int k = 0; k <= depth; k++)
        for (int n = 0; n < SIDE; n++) {
            const float size = fabsf(t->of[k][n]);
            t->most[n] =
                size > t->most[n] ? size : t->most[n]; /* the result for a NaN is not used */
            t->plain[n] += t->of[k][n];
        }
}

/* One row of results: c += a b. If a sum is extreme, the plain one. */
static void add_products(float c[SIDE], const float *a, float b[][SIDE], int depth) {
    mma_terms t;
    float units[SIDE];
    int32_t sum[SIDE] = {0};
    find_terms(&t, c, a, b, depth);
    for (int n = 0; n < SIDE; n++) {
        const bool extreme = is_extreme(t.plain[n], t.most[n]);
        const int exponent = stored_exponent(t.most[n]) - EXPONENT_BIAS;
        units[n] = extreme ? 0 : power_of_two(KEPT_BITS - 1 - exponent);
        for (int k = 0; extreme && k <= depth; k++)
            t.of[k][n] = 0;
    }
    for (int k = 0; k <= depth; k++)
        for (int n = 0; n < SIDE; n++)
            sum[n] += (int32_t)(t.of[k][n] * units[n]);
    for (int n = 0; n < SIDE; n++)
        c[n] = units[n] == 0 ? t.plain[n] : cut_sum(sum[n], 1 / units[n]);
}

static void multiply(vgpu_warp *warp) {
    const ptx_instruction *in = ptx_frame_of(warp, 0)->instruction;
    const bool is_bf16 = in->choice[0] == 1, small_c = in->choice[0] == 2;
    mma_operands m;
    for (int l = 0; l < WARP_LANES; l++)
        read_lane(ptx_frame_of(warp, l), l, is_bf16, small_c, &m);
    for (int r = 0; r < ROWS; r++)
        add_products(m.c[r], m.a[r], m.b, in->option);
    for (int l = 0; l < WARP_LANES; l++)
        write_lane(ptx_frame_of(warp, l), l, small_c, &m);
}

static void mma(ptx_frame *f) {
    const bool small_c = f->instruction->choice[0] == 2;
    if (f->instruction->count != (small_c ? 4 : 8) + f->instruction->option / 8 * 3)
        ptx_fail_operand(f, 0);
    ptx_meet(f, multiply);
}

/* ---- elect.sync: d|p, mask: one of the lanes, always the same one of a mask, but no kernel
 * may know which ---- */

static void elect(vgpu_warp *warp) {
    const unsigned lanes = (unsigned)__builtin_popcount(warp->mask);
    unsigned skip = (unsigned)((schedule_seed() * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % lanes;
    int chosen = -1;
    for (int l = 0; l < WARP_LANES && chosen < 0; l++)
        if ((warp->mask >> l & 1) && skip-- == 0)
            chosen = l;
    for (int l = 0; l < WARP_LANES; l++) {
        if (!(warp->mask >> l & 1))
            continue;
        ptx_set(ptx_frame_of(warp, l), 0, (unsigned)chosen);
        ptx_set(ptx_frame_of(warp, l), 1, l == chosen);
    }
}

static void elect_sync(ptx_frame *f) {
    f->lane->frame = f;
    warp_meet(f->lane, (unsigned)ptx_get(f, 2), f->instruction, WARP_ASM, elect);
}

#define MMA_TYPES "(.f32.f16.f16.f32|.f32.bf16.bf16.f32|.f16.f16.f16.f16)"

const ptx_row ptx_matrices[] = {
    {"ldmatrix.sync.aligned.m8n8(.x1|.x2|.x4)(|.trans).shared(|::cta).b16", ldmatrix, 0, 2, 5},
    {"stmatrix.sync.aligned.m8n8(.x1|.x2|.x4)(|.trans).shared(|::cta).b16", stmatrix, 0, 2, 5},
    {"movmatrix.sync.aligned.m8n8.trans.b16", movmatrix, 0, 2, 2},
    {"mma.sync.aligned.m16n8k8.row.col" MMA_TYPES, mma, 8, 7, 14},
    {"mma.sync.aligned.m16n8k16.row.col" MMA_TYPES, mma, 16, 7, 14},
    {"elect.sync", elect_sync, 0, 3, 3},
    {0},
};
