/* plan_tiles.c: occupancy, and the models of registers and time. */
#include "lab/plan/plan_tiles.h"

#include <math.h>

#include "cuda/occupancy.h"
#include "cuda/shape.h"

enum { WARP = 32, SCHEDULERS = 4, MMA_ROWS = 16 };

/* ------------------------------------------------------------------------ tiles */

static int round_up(int x, int to) {
    return (x + to - 1) / to * to;
}

lab_tile lab_tile_of_grid(size_t i, const att_problem *p) {
    static const int warps[] = {1, 2, 4, 8}, rows[] = {16, 32, 64},
                     keys[] = {32, 64, 96, 128, 192, 256}, stages[] = {1, 2, 3};
    lab_tile tile = {.stages = stages[i % 3],
                     .d_qk = round_up((int)p->d_qk, MMA_ROWS),
                     .d_v = round_up((int)p->d_v, MMA_ROWS)};
    i /= 3;
    tile.n = keys[i % 6];
    i /= 6;
    tile.warps = warps[i / 3];
    tile.m = tile.warps * rows[i % 3];
    return tile;
}

lab_tile lab_tile_of_row(const att_cuda_kernel *row) {
    return (lab_tile){.id = row->id,
                      .d_qk = row->d_qk,
                      .d_v = row->d_v,
                      .m = row->tile_m,
                      .n = row->tile_n,
                      .stages = row->stages,
                      .warps = row->warps};
}

/* The registry row that a kernel with this tile would have. */
static att_cuda_kernel row_of(const lab_tile *tile) {
    return (att_cuda_kernel){.source = "fwd_sm80",
                             .d_qk = tile->d_qk,
                             .d_v = tile->d_v,
                             .tile_m = tile->m,
                             .tile_n = tile->n,
                             .stages = tile->stages,
                             .warps = tile->warps};
}

const char *lab_limit_name(att_cuda_resource limit) {
    static const char *const names[ATT_RESOURCE_COUNT] = {"none", "shared memory", "registers",
                                                          "warps", "blocks"};
    return names[limit];
}

/* -------------------------------------------------------------------- registers */

/* A thread's registers: what it must hold, and what the compiler adds for addresses and early
 * loads. It adds less under register pressure, but below LEAST_OVERHEAD it spills. */
enum { THREAD_MOST = 255, LEAST_OVERHEAD = 60, MOST_OVERHEAD = 94, BASE_OVERHEAD = 40 };

/* Q is kept in registers if that takes no more than this many 16 x 16 pieces of a warp. */
enum { Q_PIECES = 8 };

static bool q_in_registers(const lab_tile *tile) {
    return tile->m / tile->warps / MMA_ROWS * (tile->d_qk / MMA_ROWS) <= Q_PIECES;
}

/* O and S in float32, Q as pairs of 16 bits: each thread holds a share of the warp's tile. */
static int live_registers(const lab_tile *tile) {
    const int rows = tile->m / tile->warps;
    const int q = q_in_registers(tile) ? rows * tile->d_qk / (2 * WARP) : 0;
    return rows * tile->d_v / WARP + rows * tile->n / WARP + q;
}

int lab_tile_registers(const lab_tile *tile) {
    const int live = live_registers(tile), overhead = BASE_OVERHEAD + live / 2;
    const int wanted = live + (overhead < MOST_OVERHEAD ? overhead : MOST_OVERHEAD);
    return wanted < THREAD_MOST || live + LEAST_OVERHEAD > THREAD_MOST ? wanted : THREAD_MOST;
}

/* ------------------------------------------------------------------ cutting of work */

/* A problem divided into tiles. */
typedef struct cut {
    bool packed;     /* a tile holds the rows of all query heads of a K/V head */
    double blocks;   /* before the keys are split */
    double steps;    /* tiles of keys over all blocks */
    double heaviest; /* steps of the block with the most */
} cut;

/* Keys that row `i` sees, counted from the first in use: [*lo, *hi). */
static void visible(const att_problem *p, const att_ref_sequence *s, int64_t i, int64_t *lo,
                    int64_t *hi) {
    att_ref_visible(p, s, i, lo, hi);
    *lo -= s->start_k;
    *hi -= s->start_k;
}

/* If a sequence has more row blocks than this, this many, evenly spaced, are counted and
 * represent the rest. */
enum { BLOCKS_SEEN = 4096 };

/* Likewise for the number of sequences. */
enum { SEQUENCES_SEEN = 256 };

/* Add `times` sequences of this length. */
static void add_sequence(cut *c, const lab_tile *tile, const att_problem *p,
                         const att_ref_sequence *s, double times) {
    const int64_t group = c->packed ? p->heads_q / p->heads_kv : 1;
    const int64_t heads = c->packed ? p->heads_kv : p->heads_q;
    const int64_t all = s->len_q * group, blocks = all / tile->m + (all % tile->m > 0);
    const int64_t seen = blocks < BLOCKS_SEEN ? blocks : BLOCKS_SEEN;
    for (int64_t i = 0; i < seen; i++) {
        const int64_t block =
            seen < blocks ? (int64_t)((double)i * (double)blocks / (double)seen) : i;
        const int64_t first = block * tile->m;
        const int64_t last = first + tile->m < all ? first + tile->m - 1 : all - 1;
        int64_t lo, hi, ignored;
        visible(p, s, first / group, &lo, &ignored);
        visible(p, s, last / group, &ignored, &hi);
        const int64_t from = lo / tile->n, to = hi > 0 ? (hi - 1) / tile->n + 1 : 0;
        const double steps = to > from ? (double)(to - from) : 0.0;
        c->steps += steps * (double)heads * times * (double)blocks / (double)seen;
        c->heaviest = steps > c->heaviest ? steps : c->heaviest;
    }
    c->blocks += (double)blocks * (double)heads * times;
}

static cut cut_problem(const lab_tile *tile, const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    /* The existing kernels do not pack. */
    cut c = {.packed = !tile->id && p->heads_q > p->heads_kv && p->seq_q < tile->m};
    if (!lab_spec_varies(spec)) {
        const att_ref_sequence s = lab_spec_sequence(spec, 0);
        add_sequence(&c, tile, p, &s, (double)p->batch);
        return c;
    }
    const int64_t seen = p->batch < SEQUENCES_SEEN ? p->batch : SEQUENCES_SEEN;
    for (int64_t i = 0; i < seen; i++) {
        const int64_t b = (int64_t)((double)i * (double)p->batch / (double)seen);
        const att_ref_sequence s = lab_spec_sequence(spec, b);
        add_sequence(&c, tile, p, &s, (double)p->batch / (double)seen);
    }
    return c;
}

/* ------------------------------------------------------------------------- time */

/* Clocks of a block besides its steps (start, Q, the latency of the first tile, O), clocks for
 * a load to arrive, and float32 instructions per score; seconds of a second kernel that merges
 * splits. */
static const double block_clocks = 2500.0, load_clocks = 700.0, scores_fp32 = 4.0,
                    combine_seconds = 2e-6;

/* Clocks of an SM for one step of one block, with `blocks` resident. Tensor cores,
 * exponentials, float32 and shared memory overlap as far as there are warps to feed them: of
 * the units that do not bind, a fraction of 1 / (warps per scheduler) stays visible. */
static double step_clocks(const lab_tile *tile, const lab_device *device, int blocks) {
    const lab_rate *rates = device->rates;
    const double sm_clocks = rates[LAB_RATE_CLOCK].value * device->limits.sms;
    const double products = rates[LAB_RATE_MMA_SEEN].value > 0.0
                                ? rates[LAB_RATE_MMA_SEEN].value
                                : rates[LAB_RATE_TENSOR].value;
    const double d = tile->d_qk + tile->d_v;
    const double scores = (double)tile->m * tile->n, keys_bytes = 2.0 * tile->n * d;
    const double q_bytes = q_in_registers(tile) ? 0.0 : 2.0 * tile->m * tile->d_qk;
    const double warps = (double)tile->warps * blocks / SCHEDULERS;
    const double idle = warps < 1.0 ? 1.0 / warps : 1.0; /* schedulers without a warp */
    const double parts[] = {
        idle * 2.0 * scores * d / (products / sm_clocks),
        idle * scores / rates[LAB_RATE_EXP].value,
        idle * scores * scores_fp32 / rates[LAB_RATE_FP32].value,
        /* K and V are written once and read by every warp */
        ((tile->warps + 1) * keys_bytes + q_bytes) / rates[LAB_RATE_SHARED].value,
    };
    double sum = 0.0, most = 0.0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        sum += parts[i];
        most = parts[i] > most ? parts[i] : most;
    }
    const double busy = most + (sum - most) / (warps > 1.0 ? warps : 1.0);
    const double waited = load_clocks - (tile->stages - 1) * busy * blocks;
    return busy + (waited > 0.0 ? waited / blocks : 0.0);
}

/* Bytes per second that `blocks` blocks can request from memory: their bytes in flight divided
 * by the latency. */
static double stream_rate(const lab_tile *tile, const lab_device *device, double blocks) {
    const double tiles = tile->stages > 1 ? tile->stages - 1 : 1;
    const double bytes = blocks * tiles * 2.0 * tile->n * (tile->d_qk + tile->d_v);
    return bytes * device->rates[LAB_RATE_CLOCK].value / load_clocks;
}

/* Seconds of the whole problem with the keys in `splits` parts. */
static double predict(const lab_tile *tile, const cut *c, const lab_work *work,
                      const lab_spec *spec, const lab_device *device, int splits) {
    const att_problem *p = &spec->problem;
    const int sms = device->limits.sms;
    const double units = c->blocks * splits, slots = (double)sms * tile->blocks;
    const double steps = units > 0.0 ? c->steps / units : 0.0, full = floor(units / slots);
    const int rest =
        (int)ceil((units - full * slots) / sms); /* blocks on an SM in the last wave */
    double clocks =
        full * (tile->blocks * steps * step_clocks(tile, device, tile->blocks) + block_clocks);
    if (rest > 0)
        clocks += rest * steps * step_clocks(tile, device, rest) + block_clocks;
    const double alone =
        ceil(c->heaviest / splits) * step_clocks(tile, device, 1) + block_clocks;
    clocks = fmax(alone, clocks);
    const double memory = device->rates[LAB_RATE_MEMORY].value;
    const double compute = clocks / device->rates[LAB_RATE_CLOCK].value;
    const double streamed =
        work->bytes / fmin(memory, stream_rate(tile, device, fmin(units, slots)));
    const double partial = splits > 1 ? 8.0 * splits * (double)p->batch * (double)p->heads_q *
                                            (double)p->seq_q * (double)(p->d_v + 1)
                                      : 0.0; /* float32, written and read */
    return fmax(compute, streamed) + partial / memory + (splits > 1 ? combine_seconds : 0.0);
}

void lab_tile_evaluate(lab_tile *tile, const lab_spec *spec, const lab_work *work,
                       const lab_device *device) {
    const att_cuda_kernel row = row_of(tile);
    tile->shared = att_cuda_kernel_shared(&row);
    tile->registers = lab_tile_registers(tile);
    tile->breaks = ATT_RESOURCE_NONE;
    if (tile->shared > (uint32_t)device->limits.shared_per_block) {
        tile->breaks = ATT_RESOURCE_SHARED;
        return;
    }
    if (tile->registers > THREAD_MOST) {
        tile->breaks = ATT_RESOURCE_REGISTERS;
        return;
    }
    tile->blocks = att_cuda_resident_blocks(&device->limits, WARP * tile->warps,
                                            tile->registers, tile->shared, &tile->limited);
    /* Registers are allocated in units, so that a block may need more than its limit; or an SM
     * has too few. */
    if (tile->blocks == 0) {
        tile->breaks = tile->limited;
        return;
    }
    tile->occupancy = (double)(tile->blocks * tile->warps) / device->limits.warps_per_sm;
    const cut c = cut_problem(tile, spec);
    const double computed = c.steps * tile->m * tile->n;
    tile->useful = computed > 0.0 ? work->pairs / computed : 1.0;
    tile->splits = 1;
    tile->seconds = predict(tile, &c, work, spec, device, 1);
    for (int splits = 2; splits <= 128 && splits <= c.heaviest; splits *= 2) {
        const double seconds = predict(tile, &c, work, spec, device, splits);
        if (seconds < tile->seconds) {
            tile->seconds = seconds;
            tile->splits = splits;
        }
    }
    tile->grid = c.blocks * tile->splits;
    tile->waves = tile->grid / ((double)device->limits.sms * tile->blocks);
    tile->tail = tile->waves > 0.0 ? tile->waves / ceil(tile->waves) : 1.0;
}
