/* fwd_sm90_small.cu: forward attention on Hopper for problems that would leave most of the GPU idle
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE; a block per 64 rows, whose warpgroups share the keys
 * TILE     64 rows, TILE_N keys, STAGES tiles of K and of V a warpgroup: it takes every (WARPS / 4)-th tile of keys
 * THREADS  32 * WARPS; the first of every warpgroup loads for it
 * SMEM     a warpgroup: Q | K x STAGES | V x STAGES; then its share of O in float32; barriers and sums at the end
 * FLOW     copy    Q K0 V0 K1 V1 ...  at once, as far as STAGES goes: what such a problem waits for is memory's latency
 *          tensor  S0 .. P0V0 | S1 .. P1V1 ...
 *          alu        softmax0 |    softmax1      | the shares of the warpgroups are added in shared memory
 * NUMERICS as fwd_sm90.cu
 * LIMITS   d_qk <= D_QK, d_v <= D_V, rows at multiples of 16 bytes, O of type DTYPE, no softcap, ALiBi, bias, pages; scale > 0
 * WHY      one block an SM with all its loads under way beats blocks that stay: docs/hopper.md */
#include "kernels/fwd_sm90_softmax.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/mbarrier.cuh"
#include "kernels/packed.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/tma.cuh"
#include "kernels/vector.cuh"
#include "kernels/warpgroup.cuh"
#include "kernels/wgmma.cuh"

/* A call makes the compiler wait for each product by itself. */
#undef __noinline__
#define __noinline__ __forceinline__
#include "kernels/second_look.cuh"

#define THREADS   (32 * WARPS)
#define GROUPS    (WARPS / 4)
#define QK_PANELS ((D_QK + 63) / 64)
#define V_PANELS  ((D_V + 63) / 64)

#define ROW_BYTES   128
#define Q_BYTES     (64 * ROW_BYTES * QK_PANELS)
#define K_BYTES     (TILE_N * ROW_BYTES * QK_PANELS)
#define V_BYTES     (TILE_N * ROW_BYTES * V_PANELS)
#define GROUP_BYTES (Q_BYTES + STAGES * (K_BYTES + V_BYTES))
#define SUMS_AT     (GROUPS * GROUP_BYTES)          /* top and sum of 64 rows, a warpgroup each */
#define BARRIERS_AT (SUMS_AT + GROUPS * 2 * 64 * 4) /* K full, V full, both empty: a stage each, a warpgroup each */
#define BAD_AT      (BARRIERS_AT + GROUPS * 3 * STAGES * MBARRIER_BYTES)
#define SLACK_BYTES (2048 + 1024) /* behind the warpgroups; the boundary of 1024 bytes */
#define O_PITCH     (D_V + 8) /* floats; rows fall into different banks */

CHECK_SHARED(GROUPS *GROUP_BYTES + SLACK_BYTES);
static_assert(TILE_M == 64 && WARPS % 4 == 0, "warpgroups of 64 rows");
static_assert(64 * O_PITCH * 4 <= GROUP_BYTES, "a share of O has its place");
static_assert(BAD_AT + 8 - SUMS_AT <= 2048, "what is small has its place");

/* A warpgroup's work: every GROUPS-th tile of keys, from `first` on. */
typedef struct share {
    const att_fwd_sm90_params *p;
    unsigned tiles, barriers; /* in shared memory */
    int group, thread;        /* within the warpgroup */
    int key_head;
} share;

DEVICE unsigned k_place(const share *a, int use) {
    return a->tiles + Q_BYTES + use % STAGES * K_BYTES;
}

DEVICE unsigned v_place(const share *a, int use) {
    return a->tiles + Q_BYTES + STAGES * K_BYTES + use % STAGES * V_BYTES;
}

DEVICE unsigned k_full(const share *a, int use) {
    return a->barriers + MBARRIER_BYTES * (use % STAGES);
}

DEVICE unsigned v_full(const share *a, int use) {
    return a->barriers + MBARRIER_BYTES * (STAGES + use % STAGES);
}

/* Nobody reads K and V of this use any more. */
DEVICE unsigned both_empty(const share *a, int use) {
    return a->barriers + MBARRIER_BYTES * (2 * STAGES + use % STAGES);
}

/* By one thread: tile j of K or V, and with the first K also Q. */
DEVICE void load_keys(const share *a, const tile_work *w, const att_tensor_map *map, unsigned to, unsigned barrier, int panels,
                      int j) {
    const int batch = a->p->fwd.cu_seqlens_k ? 0 : w->s.batch;
#pragma unroll
    for (int c = 0; c < panels; c++)
        tma_load_4d(to + c * TILE_N * ROW_BYTES, map, barrier, 64 * c, (int)w->s.row_k + j * TILE_N, a->key_head, batch);
}

DEVICE void load_use(const share *a, const tile_work *w, int use, int j, bool with_q) {
    mbarrier_expect(k_full(a, use), K_BYTES + (with_q ? Q_BYTES : 0));
    if (with_q) {
        const int position = (int)w->s.row_q + (w->row0 >> a->p->pack);
#pragma unroll
        for (int c = 0; c < QK_PANELS; c++)
            tma_load_5d(a->tiles + c * 64 * ROW_BYTES, &a->p->q, k_full(a, use), 64 * c, 0, position, w->head,
                        a->p->fwd.cu_seqlens_q ? 0 : w->s.batch);
    }
    load_keys(a, w, &a->p->k, k_place(a, use), k_full(a, use), QK_PANELS, j);
    mbarrier_expect(v_full(a, use), V_BYTES);
    load_keys(a, w, &a->p->v, v_place(a, use), v_full(a, use), V_PANELS, j);
}

DEVICE void score(const share *a, float s[S_COUNT], int use) {
    const unsigned long long left = wgmma_operand(wgmma_address(a->tiles), 16);
    const unsigned long long right = wgmma_operand(wgmma_address(k_place(a, use)), 16);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < K_STEPS; k++)
        WGMMA(TILE_N)(s, left + WGMMA_STEP(k / 4 * 64 * ROW_BYTES + k % 4 * 32),
                      right + WGMMA_STEP(k / 4 * TILE_N * ROW_BYTES + k % 4 * 32), k > 0);
    wgmma_commit();
    WGMMA_WAIT(0);
    wgmma_results(s, S_COUNT);
}

DEVICE void accumulate(const share *a, float o[O_COUNT], unsigned p[P_COUNT], int use) {
    const unsigned long long right = wgmma_operand(wgmma_address(v_place(a, use)), TILE_N * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < V_STEPS; k++)
        WGMMA_MN(D_V)(o, p + 4 * k, right + WGMMA_STEP(k * 16 * ROW_BYTES), use > 0 || k > 0);
    wgmma_commit();
    WGMMA_WAIT(0);
    wgmma_results(o, O_COUNT);
}

DEVICE void softmax_step(float s[S_COUNT], float o[O_COUNT], softmax_state *m, float factor, bool first) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float top = fmaxf(m->top[half], quad_max(lane_max(s, half)) * factor);
        const float shrink = exp2_fast(m->top[half] - top);
        m->top[half] = top;
        m->sum[half] = m->sum[half] * shrink + weigh_half(s, half, factor, top);
        if (!first)
#pragma unroll
            for (int n = 2 * half; n < O_COUNT; n += 4) {
                o[n] *= shrink;
                o[n + 1] *= shrink;
            }
    }
}

/* The warpgroup's share of the keys. */
DEVICE void attend(const share *a, const tile_work *w, float o[O_COUNT], softmax_state *m) {
    const att_fwd_params *f = &a->p->fwd;
    const int row = w->row0 + a->thread / 32 * 16 + a->thread % 32 / 4;
    const int clear_from = visible_lo(f, &w->s, (min(w->row0 + 64, w->rows) - 1) >> a->p->pack);
    const int clear_to = visible_hi(f, &w->s, w->row0 >> a->p->pack);
    const int uses = (w->last - w->first - a->group + GROUPS - 1) / GROUPS;
    float s[S_COUNT];
    unsigned p[P_COUNT];
#pragma unroll 1
    for (int use = 0; use < uses; use++) {
        const int j = w->first + a->group + use * GROUPS;
        mbarrier_wait(k_full(a, use), use / STAGES & 1);
        score(a, s, use);
        if (j * TILE_N < clear_from || (j + 1) * TILE_N > clear_to)
            hide_keys(a->p, &w->s, s, row, j);
        softmax_step(s, o, m, f->scale_log2, use == 0);
        round_weights(p, s);
        mbarrier_wait(v_full(a, use), use / STAGES & 1);
        accumulate(a, o, p, use);
        if (use + STAGES < uses) {
            __syncwarp();
            if (a->thread % 32 == 0)
                mbarrier_arrive(both_empty(a, use));
            if (a->thread == 0) {
                mbarrier_wait(both_empty(a, use), use / STAGES & 1);
                load_use(a, w, use + STAGES, j + STAGES * GROUPS, false);
            }
        }
    }
}

/* Top and sum of a row over all warpgroups: what this one's share is to be multiplied by; *lse in units of log2. */
DEVICE float join_sums(const float *sums, const softmax_state *m, int r, int half, float *lse) {
    float top = -1e30f, total = 0.0f;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        top = fmaxf(top, sums[2 * 64 * g + r]);
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        total += sums[2 * 64 * g + 64 + r] * exp2_fast(sums[2 * 64 * g + r] - top);
    *lse = total > 0.0f ? top + log2_fast(total) : total == 0.0f ? -INFINITE : total;
    return exp2_fast(m->top[half] - top) * (total > 0.0f ? reciprocal_fast(total) : total);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) KERNEL(const __grid_constant__ att_fwd_sm90_params params) {
    extern __shared__ char shared_memory[];
    const att_fwd_sm90_params *p = &params;
    const att_fwd_params *f = &p->fwd;
    const unsigned shared = (shared_address(shared_memory) + 1023) & ~1023u;
    char *const memory = shared_memory + (shared - shared_address(shared_memory));
    const int group = uniform((int)threadIdx.x / WARPGROUP), thread = (int)threadIdx.x % WARPGROUP, lane = thread % 32;
    share a = {p, shared + group * GROUP_BYTES, shared + BARRIERS_AT + group * 3 * STAGES * MBARRIER_BYTES, group, thread, 0};
    unsigned *const bad = (unsigned *)(memory + BAD_AT);
    if (thread == 0) {
        tma_prefetch_map(&p->q);
        tma_prefetch_map(&p->k);
        tma_prefetch_map(&p->v);
        for (int n = 0; n < STAGES; n++) {
            mbarrier_init(k_full(&a, n), 1);
            mbarrier_init(v_full(&a, n), 1);
            mbarrier_init(both_empty(&a, n), 4);
        }
        mbarrier_init_done();
        if (group == 0)
            bad[0] = bad[1] = 0;
    }
    __syncthreads();
    allow_next_kernel();
    wait_for_previous_kernel();
    const tile_work w = tile_of(p, (int)blockIdx.x);
    if (!has_rows(&w))
        return;
    a.key_head = p->pack ? w.head : (int)divide(w.head, &f->by_group);
    if (thread == 0)
        for (int use = 0; use < STAGES && w.first + group + use * GROUPS < w.last; use++)
            load_use(&a, &w, use, w.first + group + use * GROUPS, use == 0);

    float o[O_COUNT];
#pragma unroll
    for (int n = 0; n < O_COUNT; n++)
        o[n] = 0.0f;
    softmax_state m = {{-1e30f, -1e30f}, {0.0f, 0.0f}};
    attend(&a, &w, o, &m);

    /* Warpgroups tell each other their tops and sums. */
    const int r = thread / 32 * 16 + lane / 4;
    float *const sums = (float *)(memory + SUMS_AT);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float total = quad_sum(m.sum[half]);
        if (lane % 4 == 0) {
            sums[2 * 64 * group + r + 8 * half] = m.top[half];
            sums[2 * 64 * group + 64 + r + 8 * half] = total;
        }
    }
    __syncthreads();
    float *const mine = (float *)(memory + group * GROUP_BYTES);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = w.row0 + r + 8 * half, head = head_of(p, w.head, row);
        float lse, scale = join_sums(sums, &m, r + 8 * half, half, &lse);
        const int i = row >> p->pack;
        const bool lost = lse != lse || (lse == -INFINITE && visible_hi(f, &w.s, i) > visible_lo(f, &w.s, i));
        if (f->sinks)
            scale *= add_sink(f, head, &lse);
        if (group == 0 && lane % 4 == 0 && row < w.rows) {
            if (f->lse)
                f->lse[first_row(p, &w, &f->lse_stride) + row_offset(p, &f->lse_stride, r + 8 * half)] = lse * LN_2;
            if (lost)
                atomicOr(&bad[(r + 8 * half) / 32], 1u << (r + 8 * half) % 32);
        }
#pragma unroll
        for (int n = 0; n < O_COUNT / 4; n++)
            *(float2 *)(mine + (r + 8 * half) * O_PITCH + 8 * n + lane % 4 * 2) =
                make_float2(o[4 * n + 2 * half] * scale, o[4 * n + 2 * half + 1] * scale);
    }
    __syncthreads();
    /* O is the sum of the shares. */
#pragma unroll 2
    for (int at = (int)threadIdx.x; at < 64 * (D_V / 8); at += THREADS) {
        const int row = at / (D_V / 8), column = at % (D_V / 8) * 8;
        float x[8] = {};
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            const float4 *from = (const float4 *)(memory + g * GROUP_BYTES + (row * O_PITCH + column) * 4);
            const float4 lo = from[0], hi = from[1];
            x[0] += lo.x, x[1] += lo.y, x[2] += lo.z, x[3] += lo.w;
            x[4] += hi.x, x[5] += hi.y, x[6] += hi.z, x[7] += hi.w;
        }
        const uint4 packed = make_uint4(pack_16(DTYPE, x[0], x[1]), pack_16(DTYPE, x[2], x[3]), pack_16(DTYPE, x[4], x[5]),
                                        pack_16(DTYPE, x[6], x[7]));
        if (w.row0 + row >= w.rows || column >= f->d_v)
            continue;
        store_16((half_bits *)f->o + first_row(p, &w, &f->o_stride) + row_offset(p, &f->o_stride, row) + column, packed);
        const unsigned check = times_zero_plus(DTYPE, packed.x, times_zero_plus(DTYPE, packed.y, times_zero_plus(DTYPE, packed.z, times_zero_plus(DTYPE, packed.w, 0))));
        if ((check & 0x7fff7fff) != 0)
            atomicOr(&bad[row / 32], 1u << row % 32);
    }
    __syncthreads();
    for (int row = (int)threadIdx.x / 32; row < 64; row += WARPS)
        if (bad[row / 32] >> row % 32 & 1)
            second_look(f, w.s.batch, head_of(p, w.head, w.row0 + row), (w.row0 + row) >> p->pack);
}
