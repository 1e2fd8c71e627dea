/* attention_operation.c: attention as an operation of the core. */
#include "attention/cuda/alignment.h"
#include "attention/problem.h"
#include "attention/traits.h"
#include "base/dtype.h"
#include "core/operation.h"

static att_status check(const void *problem, void *extents) {
    return att_problem_check(problem, extents);
}

static int list_buffers(const void *problem, const void *extents, const void *args,
                        att_buffer list[ATT_BUFFERS_MAX], size_t *workspace_size) {
    const att_problem *p = problem;
    const att_extents *e = extents;
    const att_args *a = args;
    const size_t vector = att_cuda_base_alignment(p);
    const size_t in = att_dtype_size(p->dtype), out = att_dtype_size(p->dtype_o);
    const size_t bias = p->features & ATT_BIAS ? att_dtype_size(p->bias_dtype) : 1;
    const uint32_t lacks = ~p->features;
    const size_t count = sizeof(int32_t);
    const att_buffer all[] = {
        {"o", a->o, e->o, out, vector, false, true},
        {"lse", a->lse, e->lse, sizeof(float), 0, lacks & ATT_LSE, true},
        {"q", a->q, e->q, in, vector, false, false},
        {"k", a->k, e->k, in, vector, false, false},
        {"v", a->v, e->v, in, vector, false, false},
        {"alibi", a->alibi, e->alibi, sizeof(float), 0, lacks & ATT_ALIBI, false},
        {"bias", a->bias, e->bias, bias, 0, lacks & ATT_BIAS, false},
        {"sinks", a->sinks, e->sinks, sizeof(float), 0, lacks & ATT_SINKS, false},
        {"cu_seqlens_q", a->cu_seqlens_q, e->cu_seqlens, count, 0, lacks & ATT_CU_SEQLENS_Q,
         false},
        {"cu_seqlens_k", a->cu_seqlens_k, e->cu_seqlens, count, 0, lacks & ATT_CU_SEQLENS_K,
         false},
        {"lens_k", a->lens_k, e->lens_k, count, 0, lacks & ATT_LENS_K, false},
        {"starts_k", a->starts_k, e->lens_k, count, 0, lacks & ATT_STARTS_K, false},
        {"q_offsets", a->q_offsets, e->lens_k, count, 0, lacks & ATT_Q_OFFSETS, false},
        {"k_offsets", a->k_offsets, e->lens_k, count, 0, lacks & ATT_K_OFFSETS, false},
        {"page_table", a->page_table, e->page_table, count, 0, lacks & ATT_PAGED, false},
    };
    enum { COUNT = sizeof all / sizeof all[0] };
    for (int i = 0; i < COUNT; i++)
        list[i] = all[i];
    *workspace_size = a->workspace_size;
    return COUNT;
}

_Static_assert(sizeof(att_args) <= ATT_ARGS_MAX, "the core copies the arguments of a run");

const att_operation att_operation_attention = {
    .name = "attention",
    .problem_bytes = sizeof(att_problem),
    .problem_first = ATT_PROBLEM_0_1,
    .args_bytes = sizeof(att_args),
    .args_first = ATT_ARGS_0_1,
    .extents_bytes = sizeof(att_extents),
    .check = check,
    .buffers = list_buffers,
    .check_data = att_attention_check_data,
    .sizes = att_problem_sizes,
    .size_count = ATT_PROBLEM_SIZES,
    .mode_field = "causal",
    .mode_names = att_causal_names,
    .mode_count = ATT_CAUSAL_BOTTOM_RIGHT + 1,
    .mode = att_problem_mode,
    .trait_names = att_trait_names,
    .trait_count = ATT_TRAIT_COUNT,
    .traits = att_problem_traits,
};
