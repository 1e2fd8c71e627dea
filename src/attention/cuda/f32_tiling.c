/* f32_tiling.c: how fwd_sm80_f32 cuts the work. */
#include "attention/cuda/f32_tiling.h"

#include "attention/cuda/tiling.h"
#include "base/checked.h"

double att_cuda_f32_estimate(const att_kernel_row *row, const att_limits *limits,
                             const void *problem) {
    enum { SOONER = 1, LIKE_ANY = 2, LATER = 3 };
    const att_problem *p = problem;
    if (row->cuda->role != ATT_ROLE_SMALL)
        return LIKE_ANY;
    /* An SM holds two blocks of 128 rows with 64 columns, one with more. Use small tiles below
     * three quarters of that. */
    const int64_t blocks = p->batch * p->heads_q * att_ceil_div(p->seq_q, 128);
    const int held = row->cuda->d_qk <= 64 ? 2 : 1;
    return 4 * blocks < 3 * held * (int64_t)limits->gpu->sms ? SOONER : LATER;
}

/* In units of the time of a step over a tile of keys in a block that has its SM to itself:
 * starting takes 1.2 and combining 2.7. With k blocks on an SM that holds several, a step takes
 * 0.66 k. */
static double time_of(int64_t blocks, int64_t steps, int splits, int sms, int resident) {
    const int64_t on_each = att_ceil_div(blocks * splits, sms);
    const double slower = on_each == 1 || resident == 1 ? 1.0 : 0.66;
    const double merge = splits > 1 ? 2.7 + splits / 16.0 : 0.0;
    return slower * (double)on_each * (1.2 + (double)att_ceil_div(steps, splits)) + merge;
}

int att_cuda_f32_splits(const att_cuda_kernel *kernel, const att_problem *p, int64_t blocks,
                        int sms, int resident) {
    const int64_t steps = att_max(1, att_ceil_div(p->seq_k, kernel->tile_n));
    int best = 1;
    for (int splits = 2; splits <= att_min(ATT_PARTS_MOST, steps); splits++)
        if (time_of(blocks, steps, splits, sms, resident) <
            0.95 * time_of(blocks, steps, best, sms, resident)) /* for less, not worth it */
            best = splits;
    return best;
}
