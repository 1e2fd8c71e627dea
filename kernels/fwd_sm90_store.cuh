/* fwd_sm90_store.cuh: the storer warp: it stores O of every tile from shared memory while the
 * next tile is computed. */
#ifndef ATT_FWD_SM90_STORE_CUH
#define ATT_FWD_SM90_STORE_CUH

#include "kernels/fwd_sm90_shared.cuh"
#include "kernels/fwd_sm90_work.cuh"
#include "kernels/tma.cuh"
#include "kernels/vector.cuh"

/* Store rows `begin` to `end` of a warpgroup one by one: if the rows that follow belong to
 * another sequence, or the first ones are before the tensor, which the copy engine cannot
 * handle when storing. */
DEVICE void store_rows(const att_fwd_sm90_params *p, unsigned shared, int n, int group, int begin, int end) {
    const int chunks = p->fwd.d_v / 8; /* chunks of 16 bytes per row */
#pragma unroll 1
    for (int at = begin * chunks + (int)threadIdx.x % 32; at < end * chunks; at += 32) {
        const int r = at / chunks, chunk = at - r * chunks;
        const unsigned from = o_place(shared, n, group) + chunk / 8 * 64 * ROW_BYTES + r * ROW_BYTES + ((chunk % 8 ^ (r & 7)) << 4);
        half_bits *to = (half_bits *)record_address(shared, n, REC_O_ROW) + row_offset(p, &p->fwd.o_stride, 64 * group + r);
        store_16(to + chunk * 8, *(const uint4 *)__cvta_shared_to_generic(from));
    }
    __syncwarp();
}

/* Store the rows of a warpgroup. Rows past the tensor's last are not written. */
DEVICE void store_box(const att_fwd_sm90_params *p, unsigned shared, int n, int group) {
    const int position = record_word(shared, n, REC_ROW_Q) + ((record_word(shared, n, REC_ROW0) + 64 * group) >> p->pack);
#pragma unroll 1
    for (int c = 0; c < V_PANELS; c++)
        tma_store_5d(&p->o, o_place(shared, n, group) + c * 64 * ROW_BYTES, 64 * c, 0, position, record_word(shared, n, REC_HEAD),
                     p->fwd.cu_seqlens_q ? 0 : record_word(shared, n, REC_BATCH));
    tma_store_commit();
    tma_store_wait_read();
}

DEVICE void send(const att_fwd_sm90_params *p, unsigned shared) {
    const bool speaks = does_speak();
#pragma unroll 1
    for (int n = 0;; n++) {
        wait_full(shared, TILE_FULL, n, RECORDS);
        if (record_word(shared, n, REC_TILE) == NO_TILE)
            break;
        const int row0 = record_word(shared, n, REC_ROW0), rows = record_word(shared, n, REC_ROWS);
#pragma unroll 1
        for (int group = 0; group < GROUPS; group++) {
            const int begin = max(0, -row0 - 64 * group), end = min(64, rows - row0 - 64 * group);
            mbarrier_wait(barrier_of(shared, O_FULL + group), parity_of(n, 1));
            __syncwarp();
            if (SPLITS_KEYS)
                ; /* the part of O was stored from registers */
            else if (!USE_BOX_STORE || begin > 0 || (p->fwd.cu_seqlens_q && end < 64))
                store_rows(p, shared, n, group, begin, end);
            else if (speaks && end > 0)
                store_box(p, shared, n, group);
            if (speaks && TWO_Q)
                mbarrier_arrive(barrier_of(shared, O_EMPTY + group));
            if (speaks && !OWN_O) /* O was in Q's buffer */
                mbarrier_arrive(barrier_of(shared, Q_EMPTY + place_of(n, Q_STAGES) * GROUPS + group));
        }
        if (speaks)
            mbarrier_arrive(barrier_of(shared, TILE_EMPTY + place_of(n, RECORDS)));
    }
    if (speaks) {
        tma_store_wait();
        mbarrier_arrive(barrier_of(shared, STORED));
    }
}

#endif
