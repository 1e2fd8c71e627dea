/* fwd_sm90_softmax.cuh: the running softmax of 64 rows that a warpgroup holds as wgmma results.
 *
 * A thread holds two rows, 8 apart (half 0 and 1), two neighbouring columns of every 8. `top`
 * is the reference for a row's scores, in units of log2. It starts as the maximum of the first
 * tile of keys. After that, maxima are not computed for fully visible tiles: any top works as
 * long as float32 can hold the weights, and the sums of the weights, which are needed anyway,
 * show when it must rise. A score more than 2^127 above its row's top makes the row not finite,
 * and such rows are recomputed, slowly. Therefore a warp computes maxima once its rows' first
 * two tiles differ by 2^40, or once it sees such a jump later. */
#ifndef ATT_FWD_SM90_SOFTMAX_CUH
#define ATT_FWD_SM90_SOFTMAX_CUH

#include "kernels/convert.cuh"
#include "kernels/fwd_softmax.cuh"
#include "kernels/fwd_sm90_registers.cuh"
#include "kernels/fwd_sm90_work.cuh"
#include "kernels/wgmma.cuh"

#define WEIGHS_FREELY (IS_PLAIN && USE_MAX_FREE && USE_LAZY_RESCALE)
#define RAISE_SUM     1024.0f /* limit of a lane's weights: float16 can then hold all of them */
#define WIDE_APART    40.0f   /* if tiles of keys differ by this, others may overflow float32 */
#define WIDE_SUM      0x1p40f
#define NO_TOP        -1e30f  /* of a row without keys: below any score */

/* Reasons to compute maxima: this is the second tile of keys; some row of the warp has seen no
 * key yet; scores are far apart; O is written in float32, and the tops follow the maxima
 * (fwd_softmax.cuh), which only rows that split keys do. The last two hold for later tiles of
 * rows, too. */
enum { SECOND = 1, OPEN = 2, WIDE = 4, EXACT = 8, LASTING = SPLITS_KEYS ? WIDE | EXACT : WIDE };

typedef struct softmax_state {
    float top[2], sum[2];
    int caution; /* not 0: compute maxima */
} softmax_state;

/* Hide the keys of tile j that rows `row` and `row` + 8 of the unit do not see. */
DEVICE void hide_keys(const att_fwd_sm90_params *p, const sequence *own, float s[S_COUNT], int row, int j) {
    const int key0 = j * TILE_N + (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = (row + 8 * half) >> p->pack;
        const int lo = visible_lo(&p->fwd, own, i) - key0, hi = visible_hi(&p->fwd, own, i) - key0;
#pragma unroll
        for (int n = 0; n < S_COUNT / 2; n++)
            if (n / 2 * 8 + n % 2 >= hi)
                s[n / 2 * 4 + n % 2 + 2 * half] = -INFINITE;
        if (p->fwd.window_left >= 0)
#pragma unroll
            for (int n = 0; n < S_COUNT / 2; n++)
                if (n / 2 * 8 + n % 2 < lo)
                    s[n / 2 * 4 + n % 2 + 2 * half] = -INFINITE;
    }
}

/* The same in two parts, of which the first needs no scores: the visible columns, as bits. Not
 * for a loop in which most iterations need no mask: there this form, although shorter, is 0.3
 * to 1 % slower. */
static_assert(S_COUNT / 2 <= 32, "a bit for each of a thread's columns");

/* The bits of a thread's columns, two neighbours of every 8, that are before column `end`. */
DEVICE unsigned columns_before(int end) {
    unsigned bits;
    const int whole = max(end, 0);
    asm("bmsk.clamp.b32 %0, 0, %1;" : "=r"(bits) : "r"(whole / 8 * 2 + min(whole % 8, 2)));
    return bits;
}

/* The bits of this thread's columns of tile j that rows `row` and `row` + 8 of the unit see. */
DEVICE void columns_seen(const att_fwd_sm90_params *p, const sequence *own, unsigned seen[2], int row, int j) {
    const int key0 = j * TILE_N + (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = (row + 8 * half) >> p->pack;
        seen[half] = columns_before(visible_hi(&p->fwd, own, i) - key0) & ~columns_before(visible_lo(&p->fwd, own, i) - key0);
    }
}

/* The second part. */
DEVICE void hide_columns(float s[S_COUNT], const unsigned seen[2]) {
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int n = 0; n < S_COUNT / 2; n++)
            if (!(seen[half] >> n & 1))
                s[n / 2 * 4 + n % 2 + 2 * half] = -INFINITE;
}

/* The maximum of this lane's scores of a row half. */
DEVICE float lane_max(const float s[S_COUNT], int half) {
    float a = s[2 * half], b = s[2 * half + 1], c = s[4 + 2 * half], d = s[5 + 2 * half];
#pragma unroll
    for (int n = 2; n < TILE_N / 8; n += 2) {
        a = fmaxf(a, s[4 * n + 2 * half]);
        b = fmaxf(b, s[4 * n + 1 + 2 * half]);
        c = fmaxf(c, s[4 * n + 4 + 2 * half]);
        d = fmaxf(d, s[4 * n + 5 + 2 * half]);
    }
    return fmaxf(fmaxf(a, b), fmaxf(c, d));
}

/* Turn scores of a row half into weights. Returns this lane's share of their sum. */
DEVICE float weigh_half(float s[S_COUNT], int half, float factor, float top) {
    float even = 0.0f, odd = 0.0f;
#pragma unroll
    for (int n = 2 * half; n < S_COUNT; n += 4) {
        s[n] = exp2_fast(fmaf(s[n], factor, -top));
        s[n + 1] = exp2_fast(fmaf(s[n + 1], factor, -top));
        even += s[n];
        odd += s[n + 1];
    }
    return even + odd;
}

DEVICE int is_open(const softmax_state *m) {
    return __any_sync(0xffffffffu, fminf(m->top[0], m->top[1]) <= NO_TOP) ? OPEN : 0;
}

/* The first tile of keys. */
DEVICE void start_softmax(float s[S_COUNT], float factor, softmax_state *m) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        m->top[half] = fmaxf(quad_max(lane_max(s, half)) * factor, NO_TOP);
        m->sum[half] = weigh_half(s, half, factor, m->top[half]);
    }
    m->caution = (m->caution & LASTING) | SECOND | is_open(m);
}

/* Is the maximum of a tile of keys, if the row sees any of it, far from the row's top? */
DEVICE bool is_far(float high, float top) {
    /* With ALiBi, scores may fall by any amount. */
    return fminf(high, top) > NO_TOP && (HAS_ALIBI ? high - top : fabsf(high - top)) > WIDE_APART;
}

/* May a fully visible tile be weighed without its maxima? For the second tile, a quarter of the
 * scores is checked. */
DEVICE bool may_weigh_freely(const float s[S_COUNT], float factor, softmax_state *m) {
    if (m->caution == SECOND) {
        float high[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            high[half] = s[2 * half];
#pragma unroll
            for (int n = 2; n < TILE_N / 8; n += 2)
                high[half] = fmaxf(high[half], s[4 * n + 2 * half]);
            high[half] = quad_max(high[half]) * factor;
        }
        m->caution = __any_sync(0xffffffffu, is_far(high[0], m->top[0]) || is_far(high[1], m->top[1])) ? WIDE : 0;
    }
    return !m->caution;
}

/* The weights of a tile are relative to the current tops; `more` are their sums in this lane.
 * Returns true if tops rise: O must then be multiplied by `shrink`, a power of two. */
DEVICE bool raise_by_sums(float s[S_COUNT], softmax_state *m, float more[2], float shrink[2]) {
    const bool raised = __any_sync(0xffffffffu, !(fmaxf(more[0], more[1]) <= RAISE_SUM));
    if (raised) {
        m->caution = __any_sync(0xffffffffu, !(fmaxf(more[0], more[1]) <= WIDE_SUM)) ? WIDE : 0;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            /* 2^-126 is the smallest value that is not flushed to 0; infinities stay
             * infinite. */
            const int exponent = min(max((int)(__float_as_uint(quad_sum(more[half])) >> 23) - 127, 0), 126);
            shrink[half] = __uint_as_float((unsigned)(127 - exponent) << 23);
            m->top[half] += (float)exponent;
            m->sum[half] *= shrink[half];
            more[half] *= shrink[half];
        }
#pragma unroll
        for (int n = 0; n < S_COUNT; n++)
            s[n] *= shrink[n / 2 % 2];
    }
    return raised;
}

/* A further tile, relative to the current tops. */
DEVICE bool weigh_freely(float s[S_COUNT], float factor, softmax_state *m, float more[2], float shrink[2]) {
    more[0] = weigh_half(s, 0, factor, m->top[0]);
    more[1] = weigh_half(s, 1, factor, m->top[1]);
    return raise_by_sums(s, m, more, shrink);
}

/* The same with tops that follow the maxima when these grow by more than RAISE_ABOVE, as in
 * fwd_softmax.cuh. */
DEVICE bool weigh_by_maxima(float s[S_COUNT], float factor, softmax_state *m, float more[2], float shrink[2]) {
    const float slack = !USE_LAZY_RESCALE || (SPLITS_KEYS && m->caution & EXACT) ? 0.0f : RAISE_ABOVE;
    const float high[2] = {quad_max(lane_max(s, 0)) * factor, quad_max(lane_max(s, 1)) * factor};
    const bool raised = __any_sync(0xffffffffu, high[0] - m->top[0] > slack || high[1] - m->top[1] > slack);
    if (WEIGHS_FREELY)
        m->caution = (m->caution & LASTING) | (__any_sync(0xffffffffu, is_far(high[0], m->top[0]) || is_far(high[1], m->top[1])) ? WIDE : 0);
    if (raised) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float top = fmaxf(high[half], m->top[half]);
            shrink[half] = exp2_fast(m->top[half] - top);
            m->sum[half] *= shrink[half];
            m->top[half] = top;
        }
    }
    if (WEIGHS_FREELY)
        m->caution |= is_open(m);
    more[0] = weigh_half(s, 0, factor, m->top[0]);
    more[1] = weigh_half(s, 1, factor, m->top[1]);
    return raised;
}

/* Wait for O. Afterwards P may be overwritten, too. */
DEVICE void wait_o(float o[O_COUNT]) {
    WGMMA_WAIT(0);
    wgmma_results(o, O_COUNT);
}

DEVICE void rescale(float o[O_COUNT], const float shrink[2]) {
#pragma unroll
    for (int n = 0; n < O_COUNT; n++)
        o[n] *= shrink[n / 2 % 2];
}

/* The weights and their sums are known: wait for O and rescale it. */
DEVICE void add_tile(float o[O_COUNT], softmax_state *m, bool raised, const float more[2], const float shrink[2]) {
    wait_o(o);
    if (raised)
        rescale(o, shrink);
    m->sum[0] += more[0];
    m->sum[1] += more[1];
}

/* A further tile of keys, while the tensor cores add the previous one to O; `clear`: all of it
 * is visible. The branches keep the compiler from moving the wait for O above the weights. */
DEVICE void follow_softmax(float s[S_COUNT], float o[O_COUNT], float factor, softmax_state *m, bool clear) {
    float shrink[2], more[2];
    bool raised;
    if (WEIGHS_FREELY && clear && may_weigh_freely(s, factor, m))
        raised = weigh_freely(s, factor, m, more, shrink);
    else
        raised = weigh_by_maxima(s, factor, m, more, shrink);
    add_tile(o, m, raised, more, shrink);
}

DEVICE void round_weights(unsigned p[P_COUNT], const float s[S_COUNT]) {
#pragma unroll
    for (int n = 0; n < P_COUNT; n++)
        p[n] = pack_16(DTYPE, s[2 * n], s[2 * n + 1]);
}

#endif
