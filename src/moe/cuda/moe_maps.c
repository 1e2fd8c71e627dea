/* moe_maps.c: tensor maps of the weights and h of experts, for Hopper's copy engine. */
#include "moe/cuda/moe_maps.h"

#include "base/checked.h"
#include "base/error.h"
#include "cuda/tensor_maps.h"
#include "moe/moe.h"

enum { DEPTH = 64 /* columns per box */, UNIT = 16 /* rows of h */, VECTOR = 8 };

/* Rows of `depth` columns, for every local expert. */
static att_tensor_walk walk_weights(const att_moe_problem *p, const att_moe_strides *s,
                                    int64_t depth, int64_t rows, int box) {
    return (att_tensor_walk){.rank = 4,
                             .axis = {{depth, 1, DEPTH},
                                      {rows, s->row, box},
                                      {p->local_experts, s->expert, 1},
                                      {1, 0, 1}}};
}

att_status att_moe_maps_encode(att_moe_maps *maps, const att_cuda_driver *cu,
                               const att_moe_problem *p, const att_cuda_kernel *up,
                               const att_cuda_kernel *down) {
    const bool by_turns = att_moe_is_gated(p) && p->gate == ATT_MOE_INTERLEAVED;
    const int64_t rows = by_turns ? p->inner : att_moe_w1_rows(p);
    const att_moe_strides w1 = {p->w1.expert, by_turns ? 2 * p->w1.row : p->w1.row};
    const att_tensor_walk h = {
        .rank = 4,
        .axis = {{p->inner, 1, DEPTH},
                 {p->tokens * p->experts_per_token, att_round_up(p->inner, VECTOR), UNIT},
                 {1, 0, 1},
                 {1, 0, 1}}};
    const struct {
        att_tensor_map *map;
        att_tensor_walk walk;
        const char *kernel;
    } all[] = {
        {&maps->w1, walk_weights(p, &w1, p->hidden, rows, up->tile_n), up->id},
        {&maps->w3,
         walk_weights(p, att_moe_is_apart(p) ? &p->w3 : &w1, p->hidden, rows, up->tile_n),
         up->id},
        {&maps->w2, walk_weights(p, &p->w2, p->inner, p->hidden, down->tile_n), down->id},
        {&maps->h, h, down->id},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ATT_TRY(
            att_cuda_tensor_map_encode(all[i].map, cu, p->dtype, &all[i].walk, all[i].kernel));
    return ATT_OK;
}

att_status att_moe_maps_point(att_moe_maps *maps, const att_moe_params *params,
                              const att_cuda_function *up) {
    const bool gated = params->flags & ATT_MOE_GATED;
    const void *w3 = params->w1.base;
    if (gated && params->gate == ATT_MOE_GATE_APART)
        w3 = params->w3.base;
    else if (gated && params->gate == ATT_MOE_GATE_BY_TURNS && w3)
        w3 = (const uint16_t *)w3 + params->w1.row;
    ATT_TRY(att_cuda_tensor_map_point(&maps->w1, up->cu, params->w1.base, up->name));
    ATT_TRY(att_cuda_tensor_map_point(&maps->w3, up->cu, w3, up->name));
    ATT_TRY(att_cuda_tensor_map_point(&maps->w2, up->cu, params->w2.base, up->name));
    return att_cuda_tensor_map_point(&maps->h, up->cu, params->h, up->name);
}
