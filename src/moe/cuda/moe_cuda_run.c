/* moe_cuda_run.c: the launches of a layer of experts. */
#include <stdio.h>

#include "base/error.h"
#include "moe/cuda/moe_cuda.h"
#include "moe/cuda/moe_gpu_params.h"

static void point(att_moe_params *params, const att_moe_gpu *s, const att_moe_args *a,
                  void *workspace) {
    char *base = workspace;
    *params = s->params;
    att_moe_params_point(params, a);
    params->slot_ids = (int *)(void *)(base + s->at.slot_ids);
    params->slot_weights = (float *)(void *)(base + s->at.slot_weights);
    params->histograms = (int *)(void *)(base + s->at.histograms);
    params->starts = (int *)(void *)(base + s->at.starts);
    params->tile_starts = (int *)(void *)(base + s->at.tile_starts);
    params->tile_experts = (int *)(void *)(base + s->at.tile_experts);
    params->slot_at = (int *)(void *)(base + s->at.slot_at);
    params->counters = (int *)(void *)(base + s->at.counters);
    params->few_table = (int *)(void *)(base + s->at.few_table);
    params->h = base + s->at.h;
    params->parts = base + s->at.parts;
}

static att_status launch(const att_cuda_function *function, const att_cuda_shape *shape,
                         const att_moe_params *params, void *stream) {
    return shape->grid[0] ? att_cuda_launch(function, shape, params, sizeof *params, stream)
                          : ATT_OK;
}

static att_status route(const att_moe_gpu *s, att_moe_params *params, void *stream) {
    const int both = ATT_MOE_SELECT | ATT_MOE_SORT;
    params->phases = params->route_blocks == 1 ? both : ATT_MOE_SELECT;
    ATT_TRY(launch(s->route, &s->route_shape, params, stream));
    if (params->phases == both)
        return ATT_OK;
    params->phases = ATT_MOE_SORT;
    return launch(s->route, &s->route_shape, params, stream);
}

/* Launch a product; Hopper's also takes tensor maps. */
static att_status multiply(const att_cuda_function *function, const att_cuda_shape *shape,
                           const att_moe_params *params, const att_tensor_map *h,
                           const att_tensor_map *w, const att_tensor_map *w3, void *stream) {
    const att_moe_sm90_params mapped = {*params, *h, *w, *w3};
    return shape->grid[0] ? att_cuda_launch(function, shape, &mapped, sizeof mapped, stream)
                          : ATT_OK;
}

static att_status launch_all(const att_moe_gpu *s, att_moe_params *params, void *stream) {
    if (s->few) {
        ATT_TRY(launch(s->up, &s->up_shape, params, stream));
        return launch(s->down, &s->down_shape, params, stream);
    }
    ATT_TRY(route(s, params, stream));
    if (s->by_maps) {
        att_moe_maps maps = s->maps;
        ATT_TRY(att_moe_maps_point(&maps, params, s->up));
        ATT_TRY(multiply(s->up, &s->up_shape, params, &maps.h, &maps.w1, &maps.w3, stream));
        ATT_TRY(multiply(s->down, &s->down_shape, params, &maps.h, &maps.w2, &maps.w2, stream));
    } else {
        ATT_TRY(launch(s->up, &s->up_shape, params, stream));
        ATT_TRY(launch(s->down, &s->down_shape, params, stream));
    }
    return launch(s->combine, &s->combine_shape, params, stream);
}

att_status att_moe_gpu_run(const att_plan *plan, const void *args, void *workspace,
                           void *stream) {
    const att_moe_gpu *s = plan->state;
    const att_moe_args *a = args;
    att_moe_params params;
    if (a->launch)
        att_cuda_launch_record(a->launch, s->up, &s->up_shape);
    point(&params, s, a, workspace);
    bool entered;
    ATT_TRY(att_cuda_device_enter_once(s->up->device, &entered));
    const att_status status = launch_all(s, &params, stream);
    if (entered)
        att_cuda_device_leave(s->up->device);
    return status;
}

void att_moe_gpu_describe(const att_plan *plan, char *text, size_t n) {
    const att_moe_gpu *s = plan->state;
    if (s->few) {
        snprintf(text, n,
                 "grid %u x 1 x 1, %u threads and %u bytes per block, workspace %zu bytes; "
                 "before %s of %u blocks",
                 s->up_shape.grid[0], s->up_shape.threads, s->up_shape.shared, plan->workspace,
                 s->down->name, s->down_shape.grid[0]);
        return;
    }
    snprintf(
        text, n,
        "grid %u x 1 x 1, %u threads and %u bytes per block, workspace %zu bytes; after %s in "
        "%d launch%s of %u block%s, before %s and %s",
        s->up_shape.grid[0], s->up_shape.threads, s->up_shape.shared, plan->workspace,
        s->route->name, s->params.route_blocks == 1 ? 1 : 2,
        s->params.route_blocks == 1 ? "" : "es", s->route_shape.grid[0],
        s->route_shape.grid[0] == 1 ? "" : "s", s->down->name, s->combine->name);
}
