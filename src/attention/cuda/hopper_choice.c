/* hopper_choice.c: when a problem would be done in the tiles of a Hopper row.
 *
 * A tile's time is that of its keys and of the switch to it; blocks work on their tiles in rounds. Large tiles use the tensor
 * cores best; where they leave SMs idle in the last round, or in the only one, smaller ones end sooner. */
#include "attention/cuda/hopper_choice.h"

#include <math.h>

#include "base/checked.h"

enum { SWIZZLE_ROWS = 8 };

int att_cuda_hopper_copy_rows(int tile_n, const att_problem *p) {
    if (!(p->features & ATT_PAGED))
        return tile_n;
    int64_t rows = tile_n, rest = p->page_size;
    while (rest > 0) { /* the greatest common divisor */
        const int64_t next = rows % rest;
        rows = rest;
        rest = next;
    }
    return rows % SWIZZLE_ROWS == 0 ? (int)rows : 0;
}

static bool is_uneven(const att_problem *p) {
    return p->causal != ATT_CAUSAL_NONE || p->window_left >= 0 || p->window_right >= 0;
}

/* Nanoseconds of a key. From pages, copies of few rows take as long as it takes to start them: 5.4 ns a copy and warp of the block, seen on an
 * H200 with copies of 16 rows. */
static double key_ns(const att_kernel_row *row, const att_problem *p) {
    enum { PANEL = 64 /* columns of a copy */ };
    const double each = 5.4 * row->cuda->warps;
    const int rows = att_cuda_hopper_copy_rows(row->cuda->tile_n, p);
    if (!(p->features & ATT_PAGED) || rows == 0)
        return row->times.key;
    const int64_t panels = att_ceil_div(p->d_qk, PANEL) + att_ceil_div(p->d_v, PANEL);
    return fmax(row->times.key, each * (double)panels / rows);
}

double att_cuda_hopper_estimate(const att_kernel_row *row, const att_limits *limits,
                                const void *problem) {
    const att_problem *p = problem;
    const att_row_times *t = &row->times;
    const int64_t m = row->cuda->tile_m, n = row->cuda->tile_n;
    const int sms = limits->gpu->sms;
    if (t->tile == 0)
        return -1.0;
    if (p->d_qk < t->least)
        return INFINITY;
    const double row_blocks = (double)att_ceil_div(p->seq_q, m);
    const double count = (double)(p->batch * p->heads_q) * row_blocks;
    const double tile = t->tile + (is_uneven(p) ? t->cut : 0);
    /* Keys come in whole tiles. */
    const double key = key_ns(row, p);
    const double each = tile + key * (double)att_round_up(p->seq_k, n);
    const double rounds = (double)att_ceil_div((int64_t)count, sms);
    if (!is_uneven(p))
        return t->start + rounds * each;
    /* A row block sees fewer keys than the next, by its rows; and they come in whole tiles. */
    const double half = (double)p->seq_k / 2.0, fewer = (double)m * (row_blocks - 1.0) / 2.0;
    const double keys = (half > fewer ? (double)p->seq_k - fewer : half) + (double)n / 2.0;
    const double each_sm = count / sms;
    /* The longest tiles come first. Two a block go together well, and many do; a third of few does not. */
    const double uneven = each_sm > 2.5 ? 1.0 + 2.3 / (each_sm * each_sm * each_sm) : 1.0;
    const double start_again = row->cuda->role == ATT_ROLE_SMALL && each_sm > 1.0 ? 1.4 : 1.0;
    const double mean = each_sm * (tile * start_again + key * keys) * uneven;
    return t->start + (mean > each ? mean : each);
}
