/* hopper_parts.c: how many parts fwd_sm90 splits the keys into.
 *
 * Few tiles of rows leave most SMs idle. Splitting their keys into parts gives every SM a
 * share. The cost is one start per part, writing and reading its rows as float32, and a second
 * kernel that merges them. */
#include "attention/cuda/hopper_parts.h"

#include <math.h>

#include "attention/cuda/hopper.h"
#include "attention/cuda/hopper_choice.h"
#include "attention/cuda/tiling.h"
#include "base/checked.h"
#include "base/dtype.h"

/* For an H200, in nanoseconds and bytes, fitted to the times of forced parts
 * (docs/hopper.md). */
static const struct {
    double merge; /* the second kernel, with nothing to merge */
    double part;  /* plus this per part of a row; parts are summed sequentially */
    double bytes; /* of parts per nanosecond, written and read; and of a wider O, written */
    double keys;  /* bytes of K and V per nanosecond, all SMs reading */
} cost = {.merge = 2400.0, .part = 60.0, .bytes = 1650.0, .keys = 4000.0};

/* For a user's row, whose times have not been measured: those of the tile that it most likely
 * changes. */
static const att_row_times usual = {.start = 1900, .tile = 2480, .key = 11.47, .least = 1};

static double merge_ns(const att_problem *p, int parts) {
    const double rows = (double)(p->batch * p->heads_q) * (double)p->seq_q;
    const double bytes = rows * parts * (double)(p->d_v + 2) * sizeof(float);
    const double wider = (double)att_dtype_size(p->dtype_o) - (double)att_dtype_size(p->dtype);
    return cost.merge + cost.part * parts +
           (bytes + rows * (double)p->d_v * wider) / cost.bytes;
}

/* Reading K and V with this many blocks at once: fewer than nine tenths of an H200's SMs do not
 * reach its full memory bandwidth. */
static double memory_ns(const att_problem *p, int64_t blocks) {
    const double drawing = 119.0;
    const double keys = (double)(p->batch * p->heads_kv) * (double)p->seq_k;
    const double bytes = keys * (double)(p->d_qk + p->d_v) * (double)att_dtype_size(p->dtype);
    return bytes / (cost.keys * fmin(1.0, (double)att_max(blocks, 1) / drawing));
}

att_cuda_parts att_cuda_hopper_parts(const att_kernel_row *row, int sms, const att_problem *p) {
    const int64_t steps = att_ceil_div(p->seq_k, row->cuda->tile_n);
    const att_row_times *t = row->times.tile > 0 ? &row->times : &usual;
    const int64_t tiles = att_cuda_hopper_tiles(row->cuda, p);
    const int least = p->dtype_o == p->dtype ? 2 : 1;
    att_cuda_parts best = {.count = least, .ns = INFINITY};
    for (int parts = least; parts <= att_min(ATT_PARTS_MOST, steps); parts++) {
        const double work = att_cuda_hopper_time(row->cuda, t, sms, p, parts);
        const double memory = t->start + t->tile + memory_ns(p, att_min(tiles * parts, sms));
        const double ns = fmax(work, memory) + merge_ns(p, parts);
        if (ns < best.ns)
            best = (att_cuda_parts){.count = parts, .ns = ns};
    }
    return best;
}
