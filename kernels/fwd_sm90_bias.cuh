/* fwd_sm90_bias.cuh: rows with an additive bias of Q's type. For every consumer warpgroup, a
 * warp of the producer warpgroup loads the bias of its 64 rows, one tile of keys ahead of the
 * scores. Consumers load it in the layout of their products.
 *
 * In shared memory a tile is stored in boxes of BIAS_BOX columns, [box][row][column], swizzled
 * by the copy engine. A bias that is the same for all rows has one row per box, which every row
 * reads. */
#ifndef ATT_FWD_SM90_BIAS_CUH
#define ATT_FWD_SM90_BIAS_CUH

#include "kernels/convert.cuh"
#include "kernels/fwd_sm90_shared.cuh"
#include "kernels/fwd_sm90_work.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/tma.cuh"

/* The address of slot `place` of a warpgroup's ring. */
DEVICE unsigned bias_place(unsigned shared, int group, int place) {
    return shared + BIAS_AT + (group * BIAS_STAGES + place) * BIAS_BYTES;
}

/* Run by one warp: for every tile, load the bias of the rows of one warpgroup, in the order in
 * which the keys are walked. */
DEVICE void bring_bias(const att_fwd_sm90_params *p, unsigned shared, int group) {
    const att_fwd_bias *b = &features_of(p)->bias;
    const bool speaks = does_speak();
    ring at = {0, 0};
    wait_for_previous_kernel();
#pragma unroll 1
    for (int n = 0;; n++) {
        wait_full(shared, TILE_FULL, n, RECORDS);
        if (record_word(shared, n, REC_TILE) == NO_TILE)
            return;
        const int row = b->rows > 1 ? record_word(shared, n, REC_ROW0) + 64 * group : 0, first = record_word(shared, n, REC_FIRST);
        const int head = b->heads > 1 ? record_word(shared, n, REC_HEAD) : 0, batch = b->batches > 1 ? record_word(shared, n, REC_BATCH) : 0;
        const int last = record_word(shared, n, REC_LAST), turned = HAS_ALIBI ? record_word(shared, n, REC_TURNED) : 0;
#pragma unroll 1
        for (int step = last - 1; step >= first; step--) {
            const int which = group * BIAS_STAGES + at.place, key = key_tile_at(step, first, last, turned) * TILE_N;
            const unsigned full = barrier_of(shared, BIAS_FULL + which), to = bias_place(shared, group, at.place);
            mbarrier_wait(barrier_of(shared, BIAS_EMPTY + which), at.parity ^ 1);
            __syncwarp();
            if (speaks) {
                mbarrier_expect(full, b->rows > 1 ? BIAS_BYTES : TILE_N * 2);
#pragma unroll
                for (int c = 0; c < TILE_N / BIAS_BOX; c++)
                    tma_load_4d(to + c * BIAS_BOX_BYTES, &b->map, full, key + BIAS_BOX * c, row, head, batch);
            }
            at = ring_next(at, BIAS_STAGES);
        }
        __syncwarp();
        if (speaks)
            mbarrier_arrive(barrier_of(shared, TILE_EMPTY + place_of(n, RECORDS)));
    }
}

/* Columns 16 k and on, in the layout of a thread's scores 8 k and on; `from` and `swizzle` as
 * from bias_lane(). */
DEVICE void bias_16(float b[8], unsigned from, unsigned swizzle, int k) {
    enum { STEPS = BIAS_BOX / 16 }; /* per box */
    unsigned x[4];
    ldmatrix_x4(x, from + k / STEPS * BIAS_BOX_BYTES + ((unsigned)(k % STEPS * 2 << 4) ^ swizzle));
#pragma unroll
    for (int e = 0; e < 4; e++) {
        b[2 * e] = DTYPE == BF16 ? __uint_as_float(x[e] << 16) : f16_to_float((half_bits)(x[e] & 0xffffu));
        b[2 * e + 1] = DTYPE == BF16 ? __uint_as_float(x[e] & 0xffff0000u) : f16_to_float((half_bits)(x[e] >> 16));
    }
}

/* The address of row `r` of the warpgroup in its slot, and the swizzle of its 16-byte chunks;
 * `upper`: 8 columns further on. */
DEVICE void bias_lane(unsigned *from, unsigned *swizzle, unsigned place, int r, int upper) {
    *from = place + r * BIAS_BOX * 2;
    *swizzle = (unsigned)(upper ^ (BIAS_BOX == 64 ? r & 7 : r >> 1 & 3)) << 4;
}

#endif
