/* backward_operation.c: the gradients of attention, as an operation of the core. */
#include "attention/cuda/alignment.h"
#include "attention/traits.h"
#include "backward/backward.h"
#include "base/dtype.h"
#include "core/operation.h"

static int list_buffers(const void *problem, const void *extents, const void *args,
                        att_buffer list[ATT_BUFFERS_MAX], size_t *workspace_size) {
    const att_problem *p = problem;
    const att_backward_extents *e = extents;
    const att_extents *f = &e->forward;
    const att_args *a = args;
    const size_t vector = att_cuda_base_alignment(p);
    const size_t in = att_dtype_size(p->dtype), o = att_dtype_size(p->dtype_o);
    const size_t out = att_dtype_size(p->dtype_grad);
    const bool biased = p->features & ATT_BIAS;
    const size_t bias = biased ? att_dtype_size(p->bias_dtype) : 1;
    const size_t d_bias = biased ? att_dtype_size(att_backward_bias_dtype(p)) : 1;
    const uint32_t lacks = ~p->features, unasked = ~p->gradients;
    const size_t count = sizeof(int32_t), number = sizeof(float);
    const att_buffer all[] = {
        {"d_q", a->d_q, e->d_q, out, vector, false, true},
        {"d_k", a->d_k, e->d_k, out, vector, false, true},
        {"d_v", a->d_v, e->d_v, out, vector, false, true},
        {"d_bias", a->d_bias, e->d_bias, d_bias, 0, unasked & ATT_D_BIAS, true},
        {"d_sinks", a->d_sinks, f->sinks, number, 0, unasked & ATT_D_SINKS, true},
        {"d_alibi", a->d_alibi, f->alibi, number, 0, unasked & ATT_D_ALIBI, true},
        {"d_o", a->d_o, e->d_o, o, vector, false, false},
        {"o", a->o, f->o, o, vector, false, false},
        {"lse", a->lse, f->lse, number, 0, false, false},
        {"q", a->q, f->q, in, vector, false, false},
        {"k", a->k, f->k, in, vector, false, false},
        {"v", a->v, f->v, in, vector, false, false},
        {"alibi", a->alibi, f->alibi, number, 0, lacks & ATT_ALIBI, false},
        {"bias", a->bias, f->bias, bias, 0, lacks & ATT_BIAS, false},
        {"sinks", a->sinks, f->sinks, number, 0, lacks & ATT_SINKS, false},
        {"cu_seqlens_q", a->cu_seqlens_q, f->cu_seqlens, count, 0, lacks & ATT_CU_SEQLENS_Q,
         false},
        {"cu_seqlens_k", a->cu_seqlens_k, f->cu_seqlens, count, 0, lacks & ATT_CU_SEQLENS_K,
         false},
        {"lens_k", a->lens_k, f->lens_k, count, 0, lacks & ATT_LENS_K, false},
        {"starts_k", a->starts_k, f->lens_k, count, 0, lacks & ATT_STARTS_K, false},
        {"q_offsets", a->q_offsets, f->lens_k, count, 0, lacks & ATT_Q_OFFSETS, false},
        {"k_offsets", a->k_offsets, f->lens_k, count, 0, lacks & ATT_K_OFFSETS, false},
    };
    enum { COUNT = sizeof all / sizeof all[0] };
    for (int i = 0; i < COUNT; i++)
        list[i] = all[i];
    *workspace_size = a->workspace_size;
    return COUNT;
}

/* A gradient whose rows have all heads side by side repeats with its row; it covers `width`
 * bytes of each period. */
typedef struct turns {
    uint64_t period, width; /* bytes; period 0: it does not repeat like this */
} turns;

static turns turns_of(const att_problem *p, int output) {
    const att_strides *s = output == 0 ? &p->grad_q : output == 1 ? &p->grad_k : &p->grad_v;
    const int64_t heads = output == 0 ? p->heads_q : p->heads_kv;
    const int64_t d = output == 2 ? p->d_v : p->d_qk;
    const bool packed =
        p->features & (output == 0 ? (uint32_t)ATT_CU_SEQLENS_Q : (uint32_t)ATT_CU_SEQLENS_K);
    const int64_t width = (heads > 1 ? (heads - 1) * s->head : 0) + d;
    const uint64_t element = att_dtype_size(p->dtype_grad);
    if (s->row < width || (p->batch > 1 && !packed && s->batch % s->row != 0))
        return (turns){0, 0};
    return (turns){(uint64_t)s->row * element, (uint64_t)width * element};
}

/* d_q, d_k and d_v, the first three, may be interleaved in one buffer, as Q, K and V are in the
 * packed layout. */
static bool interleaved(const void *problem, const att_buffer *list, int i, int j) {
    if (i > 2 || j > 2)
        return false;
    const turns a = turns_of(problem, i), b = turns_of(problem, j);
    if (a.period == 0 || a.period != b.period)
        return false;
    const uintptr_t at_a = (uintptr_t)list[i].base, at_b = (uintptr_t)list[j].base;
    const uint64_t apart =
        at_b >= at_a ? (at_b - at_a) % a.period : a.period - (at_a - at_b) % a.period;
    return apart >= a.width && apart + b.width <= a.period;
}

const att_operation att_operation_backward = {
    .name = "backward",
    .problem_bytes = sizeof(att_problem),
    .problem_first = ATT_BACKWARD_PROBLEM_0_2,
    .args_bytes = sizeof(att_args),
    .args_first = ATT_BACKWARD_ARGS_0_2,
    .extents_bytes = sizeof(att_backward_extents),
    .check = att_backward_problem_check,
    .buffers = list_buffers,
    .interleaved = interleaved,
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
