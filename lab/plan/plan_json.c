/* plan_json.c: a plan as JSON. */
#include "lab/base/json.h"
#include "lab/plan/plan_result.h"
#include "lab/problem/problem_json.h"

static json_t *rates_object(const lab_device *device) {
    json_t *object = json_object();
    for (int i = 0; i < LAB_RATE_COUNT; i++)
        if (device->rates[i].value > 0.0)
            json_object_set_new(object, lab_rate_name((lab_rate_kind)i),
                                json_pack("{s:f, s:s}", "value", device->rates[i].value,
                                          "source", device->rates[i].source));
    return object;
}

json_t *lab_plan_device_object(const lab_device *device) {
    const att_cuda_limits *l = &device->limits;
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:o}",
                     "name", l->name, "from", device->from, "compute_capability", l->cc, "sms",
                     l->sms, "threads_per_sm", l->threads_per_sm, "warps_per_sm",
                     l->warps_per_sm, "blocks_per_sm", l->blocks_per_sm, "registers_per_sm",
                     l->registers_per_sm, "shared_per_sm", l->shared_per_sm, "shared_per_block",
                     l->shared_per_block, "shared_reserved", l->shared_reserved, "l2_bytes",
                     l->l2_bytes, "memory_bytes", (json_int_t)l->memory_bytes, "rates",
                     rates_object(device));
}

static json_t *floor_object(const lab_floor *floor) {
    json_t *object = json_pack("{s:f, s:s}", "seconds", lab_floor_seconds(floor), "binds",
                               lab_bound_name(floor->binds));
    for (int i = 0; i < LAB_BOUND_COUNT; i++)
        json_object_set_new(object, lab_bound_name((lab_bound_kind)i),
                            json_real(floor->seconds[i]));
    return object;
}

static json_t *tile_object(const lab_tile *tile) {
    char name[48];
    lab_tile_name(tile, name, sizeof name);
    json_t *object = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i}", "tile", name, "m",
                               tile->m, "n", tile->n, "stages", tile->stages, "warps",
                               tile->warps, "d_qk", tile->d_qk, "d_v", tile->d_v);
    json_object_update_new(
        object,
        json_pack("{s:I, s:i, s:b}", "shared_bytes", (json_int_t)tile->shared, "registers",
                  tile->registers, "fits", tile->breaks == ATT_RESOURCE_NONE));
    json_object_set_new(object, "kernel", tile->id ? json_string(tile->id) : json_null());
    if (tile->breaks != ATT_RESOURCE_NONE) {
        json_object_set_new(object, "breaks", json_string(lab_limit_name(tile->breaks)));
        return object;
    }
    json_object_update_new(
        object, json_pack("{s:i, s:f, s:s, s:i, s:f, s:f, s:f, s:f, s:f}", "blocks_per_sm",
                          tile->blocks, "occupancy", tile->occupancy, "limited_by",
                          lab_limit_name(tile->limited), "splits", tile->splits, "grid",
                          tile->grid, "waves", tile->waves, "tail", tile->tail, "useful",
                          tile->useful, "predicted_seconds", tile->seconds));
    return object;
}

static json_t *number_or_null(bool known, double value) {
    return known ? json_real(value) : json_null();
}

static json_t *kernel_object(const lab_plan_kernel *k) {
    const att_cuda_kernel *row = k->row->cuda;
    json_t *object =
        json_pack("{s:s, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I}", "kernel", k->row->id,
                  "chosen", k->chosen, "m", row->tile_m, "n", row->tile_n, "stages",
                  row->stages, "warps", row->warps, "d_qk", row->d_qk, "d_v", row->d_v,
                  "threads", (int)k->threads, "shared_bytes", (json_int_t)k->shared);
    json_object_update_new(
        object, json_pack("{s:f, s:b, s:s}", "tiles", k->tiles, "cluster", k->cluster, "model",
                          lab_time_model_name(k->model)));
    json_object_set_new(object, "splits",
                        k->splits > 0 ? json_integer(k->splits) : json_null());
    json_object_set_new(object, "blocks", number_or_null(k->splits > 0, k->blocks));
    json_object_set_new(object, "rounds", number_or_null(k->splits > 0, k->rounds));
    json_object_set_new(object, "predicted_seconds",
                        number_or_null(k->model != LAB_TIME_NONE, k->seconds));
    return object;
}

static json_t *chosen_object(const lab_plan_result *result) {
    const lab_plan_kernel *k = result->chosen;
    return json_pack("{s:s?, s:s, s:i, s:I, s:s, s:o, s:o}", "kernel", k ? k->row->id : NULL,
                     "refusal", result->refusal, "threads", k ? (int)k->threads : 0,
                     "shared_bytes", (json_int_t)(k ? k->shared : 0), "model",
                     lab_time_model_name(k ? k->model : LAB_TIME_NONE), "predicted_seconds",
                     number_or_null(k && k->model != LAB_TIME_NONE, k ? k->seconds : 0.0),
                     "tile",
                     result->chosen_tile ? tile_object(result->chosen_tile) : json_null());
}

json_t *lab_plan_object(const lab_plan_result *result, const lab_spec *spec) {
    json_t *tiles = json_array(), *kernels = json_array();
    for (size_t i = 0; i < result->tile_count; i++)
        json_array_append_new(tiles, tile_object(&result->tiles[i]));
    for (size_t i = 0; i < result->kernel_count; i++)
        json_array_append_new(kernels, kernel_object(&result->kernels[i]));
    return json_pack("{s:o, s:{s:f, s:f, s:f}, s:o, s:o, s:o, s:o, s:o}", "problem",
                     lab_json_problem(spec), "work", "flops", result->work.flops, "bytes",
                     result->work.bytes, "exponentials", result->work.pairs, "floor",
                     floor_object(&result->floor), "reach",
                     result->has_reach ? floor_object(&result->reach) : json_null(), "chosen",
                     chosen_object(result), "kernels", kernels, "tiles", tiles);
}
