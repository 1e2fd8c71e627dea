/* decode_tiling.c: divides the keys of a few rows among the blocks of a cluster, which merge
 * their results in the same launch.
 *
 * The time of a call is the launch, loading the keys, and merging. Keys are loaded at memory
 * bandwidth if enough blocks request them, otherwise at the rate of a single block, round after
 * round. A cluster is placed within a group of SMs, and all groups together hold fewer clusters
 * than the SMs would allow. Few tiles of rows with very many keys are therefore faster in as
 * many parts as there are SMs, merged by a second kernel. */
#include "attention/cuda/decode_tiling.h"

#include <math.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/error.h"
#include "attention/cuda/params.h"
#include "attention/cuda/shares.h"

enum { MIN_ROWS = 16 }; /* rows from which a K/V head may have several tiles */

/* For an H200, in nanoseconds and bytes, fitted to the times of forced clusters and parts
 * (docs/benchmarking.md). */
static const struct {
    double call;   /* a launch, the first keys, merging, writing the rows */
    double second; /* extra if a second kernel merges */
    double round;  /* until a block that follows another has its first keys */
    double gpu;    /* bytes of K and V per nanosecond, all SMs reading */
    double l2;     /* the same for keys that tiles of one K/V head read again, from L2 */
    double block;  /* the same for one block: bytes in flight divided by latency */
    double wide;   /* factor for a tile of 16 rows; and for fwd_decode */
    double older;

    /* What decides between these and equal shares of the keys. */
    double find; /* extra for finding a share */
    double tile; /* until a share that begins a tile has its first keys */
    double key;  /* of one block, per key, and per byte of it */
    double byte;
    double lone; /* `gpu` for one block per SM, or clusters: this, and more per byte of a key */
    double lone_byte;
    double even; /* factor for shares of unequal sequences, which others take as they are */
} cost = {.call = 2600.0,
          .second = 1500.0,
          .round = 1500.0,
          .gpu = 4500.0,
          .l2 = 10000.0,
          .block = 64.0,
          .wide = 1.25,
          .older = 2.0,
          .find = 4400.0,
          .tile = 2900.0,
          .key = 4.0,
          .byte = 1.0 / 128.0,
          .lone = 3400.0,
          .lone_byte = 1.5625,
          .even = 0.67};

static double bytes_per_key(const att_problem *p) {
    return (double)(p->d_qk + p->d_v) * (double)att_dtype_size(p->dtype);
}

/* The time to read K and V once, at `rate`. */
static double read_ns(const att_problem *p, double rate) {
    return (double)(p->batch * p->heads_kv) * (double)p->seq_k * bytes_per_key(p) / rate;
}

/* The time that memory takes at least: K and V once, and from L2 for every tile of rows. */
static double memory_ns(const att_problem *p, int64_t tiles) {
    return fmax(read_ns(p, cost.gpu),
                (double)tiles * (double)p->seq_k * bytes_per_key(p) / cost.l2);
}

/* The time until the keys of `tiles` tiles of rows are loaded, each in `parts` parts, `at_once`
 * parts at a time. */
static double stream_ns(const att_cuda_kernel *k, const att_problem *p, int64_t tiles,
                        int parts, int64_t at_once) {
    const int64_t step = (int64_t)k->tile_n * k->warps;
    const double keys = (double)(att_ceil_div(p->seq_k, step * parts) * step);
    const double rounds = (double)att_ceil_div(tiles * parts, att_max(at_once, 1));
    const double alone =
        rounds * (cost.round + keys * bytes_per_key(p) / cost.block) - cost.round;
    return fmax(memory_ns(p, tiles), alone);
}

/* Rows with ATT_FEATURE_PAGES copy whole tiles, and address them with 32-bit offsets in units
 * of 16 bytes. */
static bool offsets_fit(const att_strides *stride, const att_problem *p) {
    enum { UNIT = 8 /* elements */ };
    const int64_t most = INT32_MAX;
    return stride->batch >= 0 && stride->row >= 0 &&
           stride->batch / UNIT <= most / 2 / att_max(p->num_pages, 1) &&
           stride->row / UNIT <= most / 2 / p->page_size;
}

static const char *refuse_pages(const att_cuda_kernel *kernel, const att_problem *p,
                                const char **field) {
    *field = "features";
    if (!(p->features & ATT_PAGED))
        return "is for keys in pages";
    if (p->features & ATT_STARTS_K)
        return "takes no starts_k: tiles would not begin where pages do";
    *field = "page_size";
    if (p->page_size % kernel->tile_n != 0)
        return "pages do not hold whole tiles of keys";
    *field = p->d_qk != kernel->d_qk ? "d_qk" : "d_v";
    if (p->d_qk != kernel->d_qk || p->d_v != kernel->d_v)
        return "is not that of the tiles, which are copied whole";
    *field = offsets_fit(&p->k, p) ? "v" : "k";
    if (!offsets_fit(&p->k, p) || !offsets_fit(&p->v, p))
        return "has strides below 0, or pages 16 GB apart";
    return NULL;
}

const char *att_cuda_decode_refusal(const att_cuda_kernel *kernel, const att_problem *p,
                                    const char **field) {
    const char *why =
        kernel->features & ATT_FEATURE_PAGES ? refuse_pages(kernel, p, field) : NULL;
    if (why)
        return why;
    const int64_t rows = p->seq_q * (p->heads_q / p->heads_kv);
    *field = "seq_q";
    if (rows > kernel->tile_m && kernel->tile_m < MIN_ROWS)
        return "its tile does not hold the rows of a K/V head";
    *field = NULL;
    return NULL;
}

void att_cuda_decode_remark(const att_cuda_kernel *kernel, const att_problem *p, char *text,
                            size_t n) {
    const bool narrow_qk = p->d_qk != kernel->d_qk;
    snprintf(text, n, "%s", "");
    if (kernel->features & ATT_FEATURE_PAGES)
        return;
    if (narrow_qk || p->d_v != kernel->d_v)
        snprintf(text, n, ", keys copied row by row: %s=%lld is not %d",
                 narrow_qk ? "d_qk" : "d_v", (long long)(narrow_qk ? p->d_qk : p->d_v),
                 narrow_qk ? kernel->d_qk : kernel->d_v);
    else if (p->features & ATT_PAGED)
        snprintf(text, n, ", keys copied row by row: page_size=%lld", (long long)p->page_size);
}

/* The number of parts that gives every SM a block, or every block a step; below 2 there is
 * nothing to divide. */
static int most_parts(const att_cuda_kernel *k, const att_problem *p, int64_t tiles, int sms) {
    const int64_t steps = att_ceil_div(p->seq_k, (int64_t)k->tile_n * k->warps);
    return (int)att_min(ATT_PARTS_MOST, att_min(sms / tiles, steps));
}

att_cuda_decode_choice att_cuda_decode_choose(const att_cuda_kernel *kernel, int sms,
                                              const att_problem *p, int64_t tiles,
                                              const int clusters[ATT_CLUSTER_SIZES],
                                              bool combines) {
    att_cuda_decode_choice best = {.splits = 0, .ns = INFINITY};
    for (int n = 0; n < ATT_CLUSTER_SIZES; n++) {
        const int size = 1 << n;
        const double ns =
            cost.call + stream_ns(kernel, p, tiles, size, (int64_t)clusters[n] * size);
        if (clusters[n] > 0 && ns < best.ns)
            best = (att_cuda_decode_choice){.splits = size, .cluster = size > 1, .ns = ns};
    }
    const int parts = most_parts(kernel, p, tiles, sms);
    if (!combines || parts <= 1)
        return best;
    const double ns = cost.call + cost.second + stream_ns(kernel, p, tiles, parts, sms);
    return ns < best.ns ? (att_cuda_decode_choice){.splits = parts, .ns = ns} : best;
}

void att_cuda_assume_clusters(int clusters[ATT_CLUSTER_SIZES], int sms) {
    for (int n = 0; n < ATT_CLUSTER_SIZES; n++)
        clusters[n] = (n < 2 ? sms : sms * 120 / 132) >> n;
}

/* Does a K/V head have several tiles of rows, each of which reads all its keys? */
static bool reads_again(const att_problem *p, int64_t tiles) {
    return tiles > p->batch * p->heads_kv;
}

bool att_cuda_few_rows(const att_problem *p) {
    return p->seq_q * (p->heads_q / p->heads_kv) <= MIN_ROWS / 2;
}

/* Would half of the tile be empty? */
static bool is_too_wide(const att_cuda_kernel *kernel, const att_problem *p) {
    return kernel->tile_m >= MIN_ROWS && att_cuda_few_rows(p);
}

bool att_cuda_unequal_keys(const att_problem *p) {
    return p->batch > 1 && p->features & (ATT_LENS_K | ATT_STARTS_K | ATT_CU_SEQLENS_K);
}

/* The time of one block per key. */
static double key_ns(const att_problem *p) {
    return cost.key + cost.byte * bytes_per_key(p);
}

/* A lower bound for blocks that read alone on their SMs, and for clusters, which do not begin and
 * end together; 0 for others. */
static double lone_stream_ns(const att_cuda_decode_choice *choice, const att_problem *p,
                             int64_t tiles, int sms) {
    if (!choice->cluster && (choice->splits > 1 || tiles > sms))
        return 0.0;
    const double rate = fmin(cost.gpu, cost.lone + cost.lone_byte * bytes_per_key(p));
    return fmax((double)p->seq_k / choice->splits * key_ns(p), read_ns(p, rate));
}

double att_cuda_decode_estimate(const att_cuda_kernel *kernel, const att_problem *p, int sms) {
    const int64_t tiles = att_cuda_row_tiles(kernel, p);
    int clusters[ATT_CLUSTER_SIZES];
    if (tiles == 0)
        return -1.0;
    if (is_too_wide(kernel, p))
        return INFINITY;
    att_cuda_assume_clusters(clusters, sms);
    const att_cuda_decode_choice choice =
        att_cuda_decode_choose(kernel, sms, p, tiles, clusters, true);
    const double stream = fmax(choice.ns - cost.call, lone_stream_ns(&choice, p, tiles, sms));
    return cost.call + stream * (kernel->tile_m < MIN_ROWS ? 1.0 : cost.wide);
}

/* The time until the keys are loaded, by two blocks per SM, all of which end together, and each
 * tile takes `tile` to begin. */
static double shares_stream_ns(const att_cuda_kernel *kernel, const att_problem *p, int sms,
                               double tile) {
    const int64_t tiles = att_cuda_row_tiles(kernel, p);
    const double each = tile + (double)p->seq_k * key_ns(p);
    const double stream =
        fmax(memory_ns(p, tiles), (double)tiles * each / (double)att_cuda_shares_count(sms));
    return stream * (kernel->tile_m < MIN_ROWS ? 1.0 : cost.wide);
}

double att_cuda_shares_ns(const att_cuda_kernel *kernel, const att_problem *p, int sms) {
    return cost.call + cost.find + cost.second + shares_stream_ns(kernel, p, sms, cost.tile);
}

double att_cuda_shares_estimate(const att_cuda_kernel *kernel, const att_problem *p, int sms) {
    if (att_cuda_row_tiles(kernel, p) == 0)
        return -1.0;
    if (is_too_wide(kernel, p))
        return INFINITY;
    const double gain = att_cuda_unequal_keys(p)
                            ? (1.0 - cost.even) * shares_stream_ns(kernel, p, sms, 0.0)
                            : 0.0;
    return att_cuda_shares_ns(kernel, p, sms) - gain;
}

double att_cuda_decode_blocks_estimate(const att_cuda_kernel *kernel, const att_problem *p,
                                       int sms) {
    const int64_t tiles = att_cuda_row_tiles(kernel, p);
    if (!reads_again(p, tiles))
        return -1.0;
    const int parts = att_cuda_choose_splits(kernel, p, tiles, sms);
    return cost.call + cost.second + cost.older * stream_ns(kernel, p, tiles, parts, sms);
}

att_status att_cuda_decode_tiling(att_cuda_tiling *tiling, const att_cuda_kernel *kernel,
                                  const att_cuda_limits *limits, const att_problem *p,
                                  int64_t tiles, bool combines) {
    int clusters[ATT_CLUSTER_SIZES] = {limits->sms};
    ATT_TRY(att_cuda_function_allow_clusters(tiling->function));
    att_cuda_shape alone =
        tiling->shape; /* with enough shared memory that an SM holds one block */
    alone.shared = (uint32_t)att_max(alone.shared, limits->shared_per_sm / 2);
    ATT_TRY(att_cuda_function_allow(tiling->function, alone.shared));
    for (int n = 1; n < ATT_CLUSTER_SIZES; n++) {
        alone.cluster = alone.grid[1] = 1u << n;
        ATT_TRY(att_cuda_clusters_resident(&clusters[n], tiling->function, &alone));
    }
    const att_cuda_decode_choice choice =
        att_cuda_decode_choose(kernel, limits->sms, p, tiles, clusters, combines);
    tiling->shape.cluster = choice.cluster ? (uint32_t)choice.splits : 0;
    tiling->shape.grid[1] = (uint32_t)choice.splits;
    tiling->params.splits = choice.splits;
    tiling->params.by_splits = att_cuda_divisor((unsigned)choice.splits);
    return ATT_OK;
}
