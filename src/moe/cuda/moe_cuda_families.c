/* moe_cuda_families.c: a layer of experts on a GPU: moe_route, then moe_sm80 and moe_sm80_down,
 * or their versions for Hopper, and moe_combine; or for few tokens moe_few and moe_few_down
 * alone. */
#include "base/checked.h"
#include "base/dtype.h"
#include "base/error.h"
#include "cuda/shape.h"
#include "cuda/tensor_maps.h"
#include "moe/cuda/moe_cuda.h"
#include "moe/cuda/moe_gpu_params.h"
#include "moe/moe.h"

enum { VECTOR = 8 /* elements per 16 bytes */ };

int64_t att_moe_tiles_most(const att_cuda_kernel *main, const att_moe_problem *p) {
    const int64_t slots = p->tokens * p->experts_per_token;
    return slots / main->tile_m + att_min(slots, p->local_experts);
}

/* Down products have tiles of the same number of positions. */
static bool is_for(const att_kernel_row *row, const att_kernel_row *main) {
    const att_cuda_kernel *k = row->cuda, *first = main->cuda;
    return row->family == att_moe_down_family(main) && k->tile_m == first->tile_m &&
           k->warps == first->warps;
}

const att_cuda_kernel *att_moe_step_of(const att_family *family, const att_kernel_row *main,
                                       bool allow_unattested) {
    const bool down = family != &att_family_moe_route && family != &att_family_moe_combine;
    if (!down && att_moe_is_few(main))
        return NULL;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        const att_cuda_kernel *k = row->cuda;
        if (row->family == family && (!k->dtype || k->dtype == main->cuda->dtype) &&
            (!down || is_for(row, main)) && (!row->unattested || allow_unattested))
            return k;
    }
    return NULL;
}

static bool serves(const att_kernel_row *row, const att_limits *limits, const void *problem,
                   att_refusal *refusal) {
    /* Kernels count rows and columns in 32 bits, and add a tile to the counts. */
    const int64_t most = INT32_MAX - 65535;
    const att_moe_problem *p = problem;
    const att_family *const steps[] = {att_moe_down_family(row), &att_family_moe_route,
                                       &att_family_moe_combine};
    for (size_t i = 0; i < (att_moe_is_few(row) ? 1 : sizeof steps / sizeof steps[0]); i++)
        ATT_CONDITION(att_moe_step_of(steps[i], row, limits->allow_unattested), "flags",
                      "a kernel that it needs has no evidence");
    ATT_CONDITION(row->cuda->dtype == p->dtype, "dtype", "is for %s, not %s",
                  att_dtype_name(row->cuda->dtype), att_dtype_name(p->dtype));
    ATT_CONDITION(p->hidden <= most, "hidden",
                  "hidden=%lld does not fit the 32 bits that GPU kernels count in",
                  (long long)p->hidden);
    ATT_CONDITION(p->inner <= most / 2, "inner",
                  "inner=%lld does not fit the 32 bits that GPU kernels count in",
                  (long long)p->inner);
    ATT_CONDITION(
        p->tokens <= most / p->experts_per_token, "tokens",
        "tokens x experts_per_token=%lld does not fit the 32 bits that GPU kernels count in",
        (long long)(p->tokens * p->experts_per_token));
    return true;
}

/* For kernels that read 16 bytes at a time along the depth. */
static bool serves_vectors(const att_kernel_row *row, const att_limits *limits,
                           const void *problem, att_refusal *refusal) {
    const att_moe_problem *p = problem;
    att_moe_params params;
    att_moe_params_of(&params, p);
    ATT_CONDITION(!(p->flags & ATT_MOE_TRANSPOSED), "flags",
                  "reads only weights that are stored as (columns, depth)");
    ATT_CONDITION(params.flags & ATT_MOE_VECTOR_X, "x_row",
                  "rows of x are not whole vectors of 16 bytes");
    ATT_CONDITION(params.flags & ATT_MOE_VECTOR_W1, "w1",
                  "rows of w1, or of w3, are not whole vectors of 16 bytes");
    ATT_CONDITION(params.flags & ATT_MOE_VECTOR_W2, "w2",
                  "rows of w2 are not whole vectors of 16 bytes");
    return serves(row, limits, problem, refusal);
}

/* Additional requirements of the products for few tokens: blocks have a thread per slot. */
static bool serves_few(const att_kernel_row *row, const att_limits *limits, const void *problem,
                       att_refusal *refusal) {
    const att_moe_problem *p = problem;
    const int64_t most = att_cuda_kernel_threads(row->cuda);
    ATT_CONDITION(p->tokens <= most / p->experts_per_token, "tokens",
                  "tokens x experts_per_token=%lld is more than %lld",
                  (long long)(p->tokens * p->experts_per_token), (long long)most);
    return serves_vectors(row, limits, problem, refusal);
}

/* Additional requirements of the copy engine. */
static bool serves_by_maps(const att_kernel_row *row, const att_limits *limits,
                           const void *problem, att_refusal *refusal) {
    const int64_t most = ATT_TENSOR_STRIDE_END / (int64_t)sizeof(uint16_t);
    const att_moe_problem *p = problem;
    ATT_CONDITION(p->local_experts <= 1 || (p->w1.expert > 0 && p->w2.expert > 0 &&
                                            (!att_moe_is_apart(p) || p->w3.expert > 0)),
                  "w1", "experts share weights: their stride is 0");
    ATT_CONDITION(p->tokens <= 1 || p->x_row <= INT32_MAX / p->tokens * VECTOR, "x_row",
                  "x spans 32 GiB or more");
    ATT_CONDITION(p->w1.row < most / 2 && p->w1.expert < most && p->w3.row < most &&
                      p->w3.expert < most && p->w2.row < most && p->w2.expert < most,
                  "w1",
                  "a stride of weights is 2^40 bytes or more, or 2^39 between rows of w1");
    return serves_vectors(row, limits, problem, refusal);
}

static bool serves_nothing(const att_kernel_row *row, const att_limits *limits,
                           const void *problem, att_refusal *refusal) {
    (void)row, (void)limits, (void)problem;
    ATT_CONDITION(false, "role", "is a step of other kernels' runs");
    return true;
}

static bool steps_in(const att_kernel_row *step, const att_kernel_row *row,
                     const void *problem) {
    (void)problem;
    return row->cuda && row->family->operation == &att_operation_moe &&
           att_moe_step_of(step->family, row, true) == step->cuda;
}

#define FAMILY                                                                                 \
    .operation = &att_operation_moe, .state_bytes = sizeof(att_moe_gpu),                       \
    .describe = att_moe_gpu_describe
#define PRODUCTS                                                                               \
    FAMILY, .estimate = att_moe_gpu_estimate, .cut = att_moe_gpu_cut, .run = att_moe_gpu_run
#define STEP FAMILY, .serves = serves_nothing, .steps_in = steps_in

const att_family att_family_moe_sm80 = {PRODUCTS, .serves = serves};
const att_family att_family_moe_sm90 = {PRODUCTS, .serves = serves_by_maps};
const att_family att_family_moe_few = {PRODUCTS, .serves = serves_few};
const att_family att_family_moe_route = {STEP};
const att_family att_family_moe_sm80_down = {STEP};
const att_family att_family_moe_sm90_down = {STEP};
const att_family att_family_moe_few_down = {STEP};
const att_family att_family_moe_combine = {STEP};
