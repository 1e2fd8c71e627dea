/* bwd_hopper_conditions.c: the problems that bwd_sm90 accepts. */
#include "attention/cuda/alignment.h"
#include "attention/cuda/band.h"
#include "attention/problem.h"
#include "backward/cuda/bwd_hopper.h"
#include "backward/cuda/bwd_hopper_tensors.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "cuda/tensor_maps.h"

enum { VECTOR = 16, PANEL = 64 };

/* Kernels count rows, keys and heads in 32 bits, and add a tile to the counts. */
static const int64_t count_most = INT32_MAX - 65535;

static bool takes_types(const att_cuda_kernel *k, const att_problem *p, att_refusal *refusal) {
    ATT_CONDITION(k->dtype == p->dtype, "dtype", "is for %s, not %s", att_dtype_name(k->dtype),
                  att_dtype_name(p->dtype));
    ATT_CONDITION(p->dtype_o == p->dtype, "dtype_o", "reads O and dO of %s, as Q is, not %s",
                  att_dtype_name(p->dtype), att_dtype_name(p->dtype_o));
    return true;
}

static bool takes_columns(const att_cuda_kernel *k, const att_problem *p,
                          att_refusal *refusal) {
    const struct {
        const char *name;
        int64_t d;
        int most;
    } dims[] = {{"d_qk", p->d_qk, k->d_qk}, {"d_v", p->d_v, k->d_v}};
    for (int i = 0; i < 2; i++) {
        ATT_CONDITION(dims[i].d <= dims[i].most, dims[i].name, "%s=%lld is above %d",
                      dims[i].name, (long long)dims[i].d, dims[i].most);
        ATT_CONDITION(dims[i].d % 8 == 0, dims[i].name, "%s=%lld is not a multiple of 8",
                      dims[i].name, (long long)dims[i].d);
        ATT_CONDITION(att_ceil_div(dims[i].d, PANEL) == att_ceil_div(dims[i].most, PANEL),
                      dims[i].name, "would pad %s by 64 columns or more", dims[i].name);
    }
    return true;
}

/* The problem's score modifications must be exactly those compiled into the row. */
static bool shapes_scores(const att_cuda_kernel *k, const att_problem *p,
                          att_refusal *refusal) {
    const struct {
        uint32_t feature;
        bool has;
        const char *field, *name;
    } all[] = {
        {ATT_FEATURE_SOFTCAP, p->softcap > 0.0f, "softcap", "softcap"},
        {ATT_FEATURE_ALIBI, (p->features & ATT_ALIBI) != 0, "features", "ALiBi"},
    };
    ATT_CONDITION(p->scale > 0.0f, "scale", "scale=%g is not above 0", (double)p->scale);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const bool built_in = k->features & all[i].feature;
        ATT_CONDITION(built_in || !all[i].has, all[i].field, "has no %s", all[i].name);
        ATT_CONDITION(!built_in || all[i].has, all[i].field, "is for problems with %s",
                      all[i].name);
    }
    ATT_CONDITION(!(p->features & ATT_BIAS), "features", "has no bias and no boolean mask");
    ATT_CONDITION(!(p->gradients & ATT_D_ALIBI), "gradients", "computes no d_alibi");
    return true;
}

static bool counts_fit(const att_cuda_kernel *k, const att_problem *p, att_refusal *refusal) {
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {{"batch", p->batch},
                  {"heads_q", p->heads_q},
                  {"seq_q", p->seq_q},
                  {"seq_k", p->seq_k},
                  {"total_q", p->features & ATT_CU_SEQLENS_Q ? p->total_q : 0},
                  {"total_k", p->features & ATT_CU_SEQLENS_K ? p->total_k : 0}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        ATT_CONDITION(counts[i].value <= count_most, counts[i].name,
                      "%s=%lld does not fit the 32 bits that GPU kernels count in",
                      counts[i].name, (long long)counts[i].value);
    int64_t rows, keys;
    const int64_t heads = p->batch * p->heads_q; /* cannot overflow: the problem was checked */
    ATT_CONDITION(att_mul(heads, att_ceil_div(p->seq_q, k->tile_m) + 1, &rows) &&
                      rows <= count_most / ATT_BWD_SETS_MOST,
                  "seq_q", "has more tiles of rows than 32 bits count");
    ATT_CONDITION(
        att_mul(heads, att_ceil_div(p->seq_k, k->tile_n) + 1, &keys) && keys <= count_most,
        "seq_k", "has more tiles of keys than 32 bits count");
    const char *field, *why = att_cuda_band_refusal(p, &field);
    ATT_CONDITION(!why, field, "%s %s", field, why);
    return true;
}

/* Every row must start at a multiple of 16 bytes, and the copy engine must support the strides
 * of the tensors it moves. */
static bool is_walkable(const att_problem *p, att_refusal *refusal) {
    att_cuda_tensor tensors[ATT_BWD_TENSORS];
    att_backward_tensors(tensors, p);
    ATT_CONDITION(att_cuda_base_alignment(p) >= VECTOR, "alignment",
                  "bases are aligned to %zu bytes, not to 16", att_cuda_base_alignment(p));
    for (int i = 0; i < ATT_BWD_TENSORS; i++) {
        const att_cuda_tensor *t = &tensors[i];
        const struct {
            int64_t size, stride;
        } steps[] = {{t->batch, t->strides->batch},
                     {t->heads, t->strides->head},
                     {t->rows, t->strides->row}};
        const int64_t element = (int64_t)t->element;
        for (int axis = 0; axis < 3; axis++) {
            const bool steps_along = steps[axis].size > 1 && t->batch > 0 && t->rows > 0;
            ATT_CONDITION(!steps_along || steps[axis].stride * element % VECTOR == 0, t->name,
                          "rows are not aligned to 16 bytes");
            ATT_CONDITION(!steps_along || i >= ATT_BWD_TENSOR_O ||
                              (steps[axis].stride > 0 &&
                               steps[axis].stride < ATT_TENSOR_STRIDE_END / element),
                          t->name,
                          "has a stride that tensor maps do not take: 0, or too large");
        }
    }
    return true;
}

static bool has_steps(const att_kernel_row *row, const att_limits *limits, const att_problem *p,
                      att_refusal *refusal) {
    const bool any = limits->allow_unattested;
    ATT_CONDITION(att_backward_step_of(&att_family_bwd_delta, p, any), "flags",
                  "the kernel that runs before it has no evidence");
    ATT_CONDITION(att_backward_hopper_finish(row, any), "flags",
                  "the kernel that runs after it has no evidence");
    return true;
}

bool att_backward_hopper_serves(const att_kernel_row *row, const att_limits *limits,
                                const void *problem, att_refusal *refusal) {
    const att_problem *p = problem;
    const att_cuda_kernel *k = row->cuda;
    return takes_types(k, p, refusal) && takes_columns(k, p, refusal) &&
           shapes_scores(k, p, refusal) && counts_fit(k, p, refusal) &&
           is_walkable(p, refusal) && has_steps(row, limits, p, refusal);
}
