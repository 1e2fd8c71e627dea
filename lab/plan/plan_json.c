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

json_t *lab_plan_object(const lab_plan_result *result, const lab_spec *spec) {
    json_t *tiles = json_array();
    for (size_t i = 0; i < result->tile_count; i++)
        json_array_append_new(tiles, tile_object(&result->tiles[i]));
    json_t *chosen = json_pack(
        "{s:s?, s:s, s:i, s:I, s:o}", "kernel", result->chosen, "refusal", result->refusal,
        "threads", result->chosen_threads, "shared_bytes", (json_int_t)result->chosen_shared,
        "tile", result->chosen_tile ? tile_object(result->chosen_tile) : json_null());
    return json_pack("{s:o, s:{s:f, s:f, s:f}, s:o, s:o, s:o, s:o}", "problem",
                     lab_json_problem(spec), "work", "flops", result->work.flops, "bytes",
                     result->work.bytes, "exponentials", result->work.pairs, "floor",
                     floor_object(&result->floor), "reach",
                     result->has_reach ? floor_object(&result->reach) : json_null(), "chosen",
                     chosen, "tiles", tiles);
}
