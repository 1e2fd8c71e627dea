/* fwd_decode_sm90.cu: forward attention for a few query rows against many keys, in one launch
 * if a cluster of blocks is enough (sm_90)
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE; a cluster of `splits` blocks per (batch,
 *          K/V head, TILE_M rows), each with its part of the keys; or, if `partial_o` is given,
 *          as many independent blocks, whose parts fwd_combine merges
 * TILE     TILE_N keys x TILE_M rows per warp: the keys are the rows of the products, so that 8
 *          rows of Q fill them
 * THREADS  32 * WARPS; every warp walks its own keys with its own copies in flight and its own
 *          running softmax
 * SMEM     per warp a ring of STAGES tiles, K and V alternating, which the merge of the warps
 *          reuses; then the inbox: 16 parts of rows, and a barrier
 * FLOW     walk the keys; merge the warps; send row r to block r % splits of the cluster, which
 *          merges the parts and writes the row. Before the previous kernel on the stream has
 *          ended: compute addresses, prefetch Q and the first keys into L2, meet the cluster.
 *          Once a block's last copies are in flight, the next kernel may launch
 * NUMERICS as fwd_decode; parts are merged in the order of warps and blocks: the same bits on
 *          every run
 * LIMITS   d_qk <= D_QK, d_v <= D_V, in multiples of 8, rows at multiples of 16 bytes; every
 *          feature; splits of a cluster: 1, 2, 4, 8 or 16
 * WHY      docs/benchmarking.md breaks down the cost of a call, and lists what was tried and
 *          lost */
#include "kernels/cluster.cuh"
#include "kernels/fwd_decode_prefetch.cuh"
#include "kernels/mbarrier.cuh"

/* A part of a row in the inbox: O, then top and sum, padded to 16 bytes. */
#define PART_FLOATS   (RESULT_COLS + 4)
#define PART_SENT     (4 * RESULT_COLS + 8) /* bytes of it that are sent */
#define PARTS_MOST    16 /* of the rows a block merges: splits, or TILE_M if larger */
#define INBOX_OFFSET  (WARPS * RING_BYTES)
#define BARRIER_SPACE 16

CHECK_SHARED(WARPS * RING_BYTES + PARTS_MOST * PART_FLOATS * 4 + BARRIER_SPACE);

/* How many rows of the tile a block of the cluster merges: those numbered rank, rank + splits,
 * ... */
DEVICE int rows_owned(const att_fwd_params *p, const block_work *w, int rank) {
    return divide(max(w->rows - rank, 0) + p->splits - 1, &p->by_splits);
}

/* Send this block's part of every row to the block that merges it. */
DEVICE void send_rows(const att_fwd_params *p, const block_work *w, const float *results, unsigned inbox, unsigned barrier) {
    const int lane = threadIdx.x % 32;
    for (int r = threadIdx.x / 32; r < w->rows; r += WARPS) {
        const merged_row m = merge_warps(results, r);
        const int slot = divide(r, &p->by_splits), owner = r - slot * p->splits;
        const unsigned to = cluster_address(inbox + (slot * p->splits + blockIdx.y) * PART_FLOATS * 4, owner);
        const unsigned at = cluster_address(barrier, owner);
#pragma unroll
        for (int g = 0; g < QUADS; g++)
            if (4 * lane + 128 * g < RESULT_COLS)
                cluster_send_16(to + 16 * lane + 512 * g, at, m.o[g]);
        if (lane == 0)
            cluster_send_8(to + 4 * RESULT_COLS, at, make_float2(m.top, m.sum));
    }
}

/* Merge a row from its parts. */
DEVICE merged_row merge_parts(const float *parts, int count) {
    const int lane = threadIdx.x % 32;
    merged_row m = {-INFINITE, 0.0f, {}};
#pragma unroll 8
    for (int n = 0; n < count; n++)
        m.top = fmaxf(m.top, parts[n * PART_FLOATS + RESULT_COLS]);
    const float base = m.top == -INFINITE ? 0.0f : m.top;
#pragma unroll 8
    for (int n = 0; n < count; n++) {
        const float2 tail = *(const float2 *)(parts + n * PART_FLOATS + RESULT_COLS);
        const float weight = exp2_fast(tail.x - base);
        m.sum += weight * tail.y;
#pragma unroll
        for (int g = 0; g < QUADS; g++)
            if (4 * lane + 128 * g < RESULT_COLS)
                add_weighed(&m.o[g], weight, *(const float4 *)(parts + n * PART_FLOATS + 4 * lane + 128 * g));
    }
    return m;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 2)
    KERNEL(const __grid_constant__ att_fwd_params params) {
    extern __shared__ __align__(128) char shared[];
    const att_fwd_params *p = &params;
    const bool clustered = p->splits > 1 && !p->partial_o;
    const float *inbox = (const float *)(shared + INBOX_OFFSET);
    const unsigned barrier = shared_address(inbox + PARTS_MOST * PART_FLOATS);
    if (clustered) {
        if (threadIdx.x == 0) {
            mbarrier_init(barrier, 1);
            mbarrier_init_done();
        }
        __syncwarp();
        cluster_arrive();
    }
    /* The previous kernel may be writing lengths and pages. Without lengths, this block's keys
     * are known before that kernel has ended. */
    const bool known = (IS_PAGED || !p->page_table) && !reads_lengths(p);
    if (!known)
        wait_for_previous_kernel();
    const block_work w = work_of(p);
    const feed f = feed_of(p, &w);
    if (known)
        prefetch_first(p, &w, &f, p->splits > 1 ? PREFETCH_MOST : PREFETCH_LEAST);
    const int rank = blockIdx.y, owned = rows_owned(p, &w, rank);
    if (clustered) {
        if (threadIdx.x == 0)
            mbarrier_expect(barrier, owned * p->splits * PART_SENT);
        __syncwarp();
        cluster_wait(); /* every block is there and has its barrier */
    }
    if (known)
        wait_for_previous_kernel();
    if (p->partial_o)
        allow_next_kernel(); /* the combining kernel, which waits for this one */
    if (w.rows <= 0)
        return;
    warp_rows m;
    walk_keys(p, &w, f, shared, &m);
    publish((float *)shared, w.rows, &m);
    __syncthreads();
    if (p->partial_o) {
        for (int r = threadIdx.x / 32; r < w.rows; r += WARPS) {
            const tile_row row = row_of(p, &w, r);
            const merged_row part = merge_warps((const float *)shared, r);
            store_part(p, part_index(p, part_row(p, w.s.batch, row.head, row.position), rank), &part);
        }
        return;
    }
    if (clustered) {
        send_rows(p, &w, (const float *)shared, shared_address(inbox), barrier);
        if (threadIdx.x / 32 < owned)
            mbarrier_wait(barrier, 0);
    }
    for (int slot = threadIdx.x / 32; slot < owned; slot += WARPS) {
        const int r = rank + slot * p->splits;
        const tile_row row = row_of(p, &w, r);
        const merged_row all = clustered ? merge_parts(inbox + slot * p->splits * PART_FLOATS, p->splits)
                                         : merge_warps((const float *)shared, r);
        finish_row(p, &w.s, row.head, row.position, &all, p->d_v);
    }
}
