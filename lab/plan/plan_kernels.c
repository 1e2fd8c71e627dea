/* plan_kernels.c: the kernels that support a problem on a device. */
#include "lab/plan/plan_kernels.h"

#include <math.h>
#include <stdlib.h>

#include "attention/cuda/cuda_families.h"
#include "attention/cuda/decode_tiling.h"
#include "attention/cuda/hopper.h"
#include "attention/cuda/hopper_parts.h"
#include "attention/cuda/shares.h"
#include "cuda/shape.h"
#include "lab/problem/lab_operation.h"

const char *lab_time_model_name(lab_time_model model) {
    static const char *const names[LAB_TIME_COUNT] = {"none", "selector", "decode", "tile"};
    return names[model];
}

/* For kernels that multiply 16-bit numbers once; float32 is computed in several terms. */
bool lab_tiles_model(const lab_spec *spec, const lab_work *work) {
    const att_problem *p = &spec->problem;
    return p->dtype != ATT_F32 && work->pairs > 0.0 && p->d_qk <= LAB_TILE_D_MAX &&
           p->d_v <= LAB_TILE_D_MAX;
}

static bool is_hopper(const att_kernel_row *row) {
    return row->family == &att_family_fwd_sm90 || row->family == &att_family_fwd_sm90_small;
}

/* ------------------------------------------------------------- how each kind cuts the work */

static void cut_hopper(lab_plan_kernel *k, const att_limits *limits, const att_problem *p) {
    const int64_t tiles = att_cuda_hopper_tiles(k->row->cuda, p);
    const double ns = k->row->family->estimate(k->row, limits, p);
    const int sms = limits->gpu->sms;
    const bool split = k->row->cuda->role == ATT_ROLE_SPLIT;
    k->tiles = (double)tiles;
    k->splits = split ? att_cuda_hopper_parts(k->row, sms, p).count : 1;
    k->blocks = (double)att_cuda_hopper_blocks(k->row->cuda, tiles * k->splits, sms);
    k->rounds = k->tiles * k->splits / sms;
    if (ns >= 0.0 && isfinite(ns)) { /* infinite: smaller head dimensions have their own rows */
        k->model = LAB_TIME_SELECTOR;
        k->seconds = 1e-9 * ns;
    }
}

static void cut_cluster(lab_plan_kernel *k, const att_limits *limits, const att_problem *p) {
    const att_cuda_kernel *kernel = k->row->cuda;
    const int64_t tiles = att_cuda_row_tiles(kernel, p);
    int clusters[ATT_CLUSTER_SIZES];
    att_cuda_assume_clusters(clusters, limits->gpu->sms);
    k->tiles = (double)tiles;
    if (tiles == 0)
        return;
    const att_cuda_decode_choice choice =
        att_cuda_decode_choose(kernel, limits->gpu->sms, p, tiles, clusters,
                               att_cuda_combine_of(kernel, limits->allow_unattested) != NULL);
    k->splits = choice.splits;
    k->cluster = choice.cluster;
    k->blocks = k->tiles * k->splits;
    k->rounds = k->blocks / limits->gpu->sms;
    k->model = LAB_TIME_DECODE;
    k->seconds = 1e-9 * choice.ns;
}

static void cut_shares(lab_plan_kernel *k, const att_limits *limits, const att_problem *p) {
    k->tiles = (double)att_cuda_row_tiles(k->row->cuda, p);
    if (k->tiles == 0.0)
        return;
    k->splits = 1;
    k->blocks = (double)att_cuda_shares_count(limits->gpu->sms);
    k->rounds = 1.0;
    k->model = LAB_TIME_DECODE;
    k->seconds = 1e-9 * att_cuda_shares_ns(k->row->cuda, p, limits->gpu->sms);
}

static void cut_decode(lab_plan_kernel *k, const att_limits *limits, const att_problem *p) {
    const int64_t tiles = att_cuda_row_tiles(k->row->cuda, p);
    k->tiles = (double)tiles;
    k->splits = att_cuda_choose_splits(k->row->cuda, p, tiles, limits->gpu->sms);
    k->blocks = k->tiles * k->splits;
    k->rounds = k->blocks / limits->gpu->sms;
}

static void cut_tile(lab_plan_kernel *k, const lab_spec *spec, const lab_work *work,
                     const lab_device *device) {
    k->tiles = (double)att_cuda_row_tiles(k->row->cuda, &spec->problem);
    lab_tile tile = lab_tile_of_row(k->row->cuda);
    if (!lab_tiles_model(spec, work))
        return;
    lab_tile_evaluate(&tile, spec, work, device);
    if (tile.breaks != ATT_RESOURCE_NONE)
        return;
    k->splits = tile.splits;
    k->blocks = k->tiles * k->splits;
    k->rounds = tile.waves;
    k->model = LAB_TIME_TILE;
    k->seconds = tile.seconds;
}

int lab_plan_parts(const att_kernel_row *row, const att_cuda_limits *gpu,
                   const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    if (row && is_hopper(row))
        return row->cuda->role == ATT_ROLE_SPLIT ? att_cuda_hopper_parts(row, gpu->sms, p).count
                                                 : 1;
    if (row && row->family == &att_family_fwd_decode_shares)
        return att_cuda_row_tiles(row->cuda, p) > 0 ? 2 : 1;
    return 0;
}

/* ---------------------------------------------------------------------------------- the
 * list */

/* Whether a row pads more than the chosen one and has no chance against it. */
static bool only_pads(const att_kernel_row *row, const att_kernel_row *chosen) {
    return (row->cuda->d_qk > chosen->cuda->d_qk || row->cuda->d_v > chosen->cuda->d_v) &&
           !(is_hopper(row) && is_hopper(chosen));
}

static int by_time(const void *a, const void *b) {
    const lab_plan_kernel *x = a, *y = b;
    const bool timed_x = x->model != LAB_TIME_NONE, timed_y = y->model != LAB_TIME_NONE;
    if (x->chosen != y->chosen)
        return x->chosen ? -1 : 1;
    if (timed_x != timed_y)
        return timed_x ? -1 : 1;
    if (timed_x && x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row; /* in the order of the registry */
}

size_t lab_plan_list_kernels(lab_plan_kernel *list, const att_kernel_row *chosen,
                             const att_limits *limits, const lab_spec *spec,
                             const lab_work *work, double floor, const lab_device *device) {
    const att_problem *p = &spec->problem;
    size_t count = 0;
    for (size_t i = 0; i < att_rows_count(limits); i++) {
        const att_kernel_row *row = att_rows_at(limits, i);
        att_refusal refusal;
        if (row->device != limits->device || only_pads(row, chosen) ||
            !att_row_serves(row, limits, spec->operation->library, p, &refusal))
            continue;
        lab_plan_kernel *k = &list[count++];
        *k = (lab_plan_kernel){.row = row,
                               .threads = att_cuda_kernel_threads(row->cuda),
                               .shared = att_cuda_kernel_shared(row->cuda),
                               .chosen = row == chosen};
        if (is_hopper(row))
            cut_hopper(k, limits, p);
        else if (row->family == &att_family_fwd_decode_sm90)
            cut_cluster(k, limits, p);
        else if (row->family == &att_family_fwd_decode_shares)
            cut_shares(k, limits, p);
        else if (row->family == &att_family_fwd_decode)
            cut_decode(k, limits, p);
        else if (row->family == &att_family_fwd_sm80)
            cut_tile(k, spec, work, device);
    }
    for (size_t i = 0; i < count; i++) /* fitted times are valid only for one GPU's memory */
        list[i].seconds = fmax(list[i].seconds, floor);
    qsort(list, count, sizeof *list, by_time);
    return count;
}
