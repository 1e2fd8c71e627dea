/* plan_result.c: combines floor, tiles and choice. */
#include "lab/plan/plan_result.h"

#include <stdio.h>
#include <stdlib.h>

#include "attention/cuda/cuda_families.h"
#include "attention/problem.h"
#include "core/select.h"
#include "cuda/shape.h"
#include "lab/problem/lab_operation.h"

/* Rows of the registry whose tile the models describe. */
static bool is_modelled(const att_kernel_row *row) {
    return row && row->family == &att_family_fwd_sm80;
}

static bool same_tile(const lab_tile *a, const lab_tile *b) {
    return a->m == b->m && a->n == b->n && a->stages == b->stages && a->warps == b->warps &&
           a->d_qk == b->d_qk && a->d_v == b->d_v;
}

/* Add the tile of a row to the list, or its id to an equal tile. */
static void add_row(lab_plan_result *result, const att_cuda_kernel *row) {
    const lab_tile tile = lab_tile_of_row(row);
    for (size_t i = 0; i < result->tile_count; i++)
        if (same_tile(&result->tiles[i], &tile)) {
            if (!result->tiles[i].id)
                result->tiles[i].id = row->id;
            return;
        }
    result->tiles[result->tile_count++] = tile;
}

/* Add the rows that support the problem with the head dimensions of the chosen one; larger ones
 * only pad more. */
static void add_rows(lab_plan_result *result, const att_kernel_row *chosen,
                     const att_limits *limits, const lab_spec *spec) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        att_refusal refusal = {.field = ""};
        if (is_modelled(row) && row->cuda->d_qk == chosen->cuda->d_qk &&
            row->cuda->d_v == chosen->cuda->d_v &&
            att_row_serves(row, limits, spec->operation->library, &spec->problem, &refusal))
            add_row(result, row->cuda);
    }
}

static int by_time(const void *a, const void *b) {
    const lab_tile *x = a, *y = b;
    const bool fits_x = x->breaks == ATT_RESOURCE_NONE, fits_y = y->breaks == ATT_RESOURCE_NONE;
    if (fits_x != fits_y)
        return fits_x ? -1 : 1;
    if (fits_x && x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    /* If equal, the smaller one: it leaves more of the SM to others. */
    if (x->shared != y->shared)
        return x->shared < y->shared ? -1 : 1;
    return x->warps != y->warps ? x->warps - y->warps : x->m - y->m;
}

static void list_tiles(lab_plan_result *result, const lab_spec *spec, const lab_device *device,
                       const att_limits *limits, const att_kernel_row *chosen) {
    const att_problem *p = &spec->problem;
    for (size_t i = 0; i < LAB_TILE_GRID; i++)
        result->tiles[result->tile_count++] = lab_tile_of_grid(i, p);
    if (is_modelled(chosen))
        add_rows(result, chosen, limits, spec);
    for (size_t i = 0; i < result->tile_count; i++)
        lab_tile_evaluate(&result->tiles[i], spec, &result->work, device);
    qsort(result->tiles, result->tile_count, sizeof *result->tiles, by_time);
    while (result->fitting < result->tile_count &&
           result->tiles[result->fitting].breaks == ATT_RESOURCE_NONE)
        result->fitting++;
    const lab_tile tile =
        is_modelled(chosen) ? lab_tile_of_row(chosen->cuda) : (lab_tile){.m = 0};
    for (size_t i = 0; i < result->tile_count; i++)
        if (same_tile(&result->tiles[i], &tile))
            result->chosen_tile = &result->tiles[i];
}

bool lab_plan_takes(const lab_spec *spec) {
    return *spec->operation->prefix == '\0';
}

bool lab_plan_make(lab_plan_result *result, const lab_spec *spec, const lab_device *device,
                   const char *kernel, lab_message *why) {
    const att_problem *p = &spec->problem;
    *result = (lab_plan_result){.chosen = NULL};
    if (!lab_plan_takes(spec))
        return lab_fail(why, "tiles are planned for attention only, not for %s",
                        lab_spec_operation(spec));
    att_extents extents;
    if (att_problem_check(p, &extents) != ATT_OK)
        return lab_fail(why, "%s", att_last_error()->text);
    result->tiles = calloc(LAB_TILE_GRID + att_registry_count(), sizeof *result->tiles);
    result->kernels = calloc(att_registry_count(), sizeof *result->kernels);
    if (!result->tiles || !result->kernels)
        return lab_fail(why, "no memory for tiles and kernels");
    att_limits limits = {
        .device = ATT_DEVICE_CUDA, .gpu = &device->limits, .allow_unattested = true};
    snprintf(limits.kernel, sizeof limits.kernel, "%s", kernel ? kernel : "");
    lab_work_of(&result->work, spec);
    lab_floor_of(&result->floor, &result->work, p->dtype, device);
    result->has_reach = lab_reach_of(&result->reach, &result->work, p->dtype, device);
    const att_kernel_row *row;
    if (att_select(&row, &limits, spec->operation->library, p) == ATT_OK) {
        result->kernel_count =
            lab_plan_list_kernels(result->kernels, row, &limits, spec, &result->work,
                                  lab_floor_seconds(&result->floor), device);
        result->chosen = &result->kernels[0];
    } else {
        snprintf(result->refusal, sizeof result->refusal, "%s", att_last_error()->text);
    }
    if (lab_tiles_model(spec, &result->work))
        list_tiles(result, spec, device, &limits, row);
    return true;
}

void lab_plan_free(lab_plan_result *result) {
    free(result->tiles);
    free(result->kernels);
    *result = (lab_plan_result){.chosen = NULL};
}

void lab_tile_name(const lab_tile *tile, char *buf, size_t n) {
    snprintf(buf, n, "m%dn%ds%dw%d", tile->m, tile->n, tile->stages, tile->warps);
}
