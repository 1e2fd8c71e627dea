/* user_scope.c: the problems and the GPU that a user's row is kept to. */
#include <string.h>

#include "cuda/alignment.h"
#include "select/conditions.h"
#include "select/user_rows.h"

static const char *const causal_names[] = {[ATT_CAUSAL_NONE] = "none",
                                           [ATT_CAUSAL_TOP_LEFT] = "top-left",
                                           [ATT_CAUSAL_BOTTOM_RIGHT] = "bottom-right"};

int att_causal_parse(const char *name) {
    for (int i = 0; i < (int)(sizeof causal_names / sizeof causal_names[0]); i++)
        if (strcmp(causal_names[i], name) == 0)
            return i;
    return -1;
}

const char *att_causal_name(att_causal causal) {
    return causal_names[causal];
}

const char *att_trait_name(uint32_t trait) {
    static const char *const names[] = {"alibi",        "bias",      "sinks", "cu_seqlens_q",
                                        "cu_seqlens_k", "lens_k",    "paged", "window",
                                        "softcap",      "unaligned", "o_type"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (trait == 1u << i)
            return names[i];
    return NULL;
}

uint32_t att_problem_traits(const att_problem *p) {
    static const struct {
        uint32_t feature, trait;
    } pairs[] = {{ATT_ALIBI, ATT_TRAIT_ALIBI},
                 {ATT_BIAS, ATT_TRAIT_BIAS},
                 {ATT_SINKS, ATT_TRAIT_SINKS},
                 {ATT_CU_SEQLENS_Q, ATT_TRAIT_CU_SEQLENS_Q},
                 {ATT_CU_SEQLENS_K, ATT_TRAIT_CU_SEQLENS_K},
                 {ATT_LENS_K, ATT_TRAIT_LENS_K},
                 {ATT_PAGED, ATT_TRAIT_PAGED}};
    uint32_t traits = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (p->features & pairs[i].feature)
            traits |= pairs[i].trait;
    const bool right = p->causal == ATT_CAUSAL_NONE && p->window_right >= 0;
    if (p->window_left >= 0 || right)
        traits |= ATT_TRAIT_WINDOW;
    if (p->softcap != 0.0f)
        traits |= ATT_TRAIT_SOFTCAP;
    if (!att_cuda_rows_aligned(p))
        traits |= ATT_TRAIT_UNALIGNED;
    if (p->dtype_o != p->dtype)
        traits |= ATT_TRAIT_O_TYPE;
    return traits;
}

bool att_scope_has_gpu(const att_row_scope *scope, const att_limits *limits,
                       att_refusal *refusal) {
    const att_cuda_limits *gpu = limits->gpu;
    ATT_CONDITION(
        strcmp(scope->gpu, gpu->name) == 0 && scope->cc == gpu->cc && scope->sms == gpu->sms,
        "device", "is for a %.40s (sm_%d, %d SMs), this is a %.40s (sm_%d, %d SMs)", scope->gpu,
        scope->cc, scope->sms, gpu->name, gpu->cc, gpu->sms);
    ATT_CONDITION(!scope->stale, "source",
                  "was made for other source text than the library has; tune again");
    return true;
}

bool att_scope_has_problem(const att_row_scope *scope, const att_problem *p,
                           att_refusal *refusal) {
    const struct {
        const char *name;
        att_range range;
        int64_t value;
    } counts[] = {
        {"batch", scope->batch, p->batch},
        {"heads_q", scope->heads_q, p->heads_q},
        {"heads_kv", scope->heads_kv, p->heads_kv},
        {"seq_q", scope->seq_q, p->seq_q},
        {"seq_k", scope->seq_k, p->seq_k},
        {"d_qk", scope->d_qk, p->d_qk},
        {"d_v", scope->d_v, p->d_v},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        ATT_CONDITION(
            counts[i].value >= counts[i].range.low && counts[i].value <= counts[i].range.high,
            counts[i].name, "%s=%lld is not in the %lld..%lld that it is for", counts[i].name,
            (long long)counts[i].value, (long long)counts[i].range.low,
            (long long)counts[i].range.high);
    ATT_CONDITION(p->causal == scope->causal, "causal", "is for causal %s, not %s",
                  att_causal_name(scope->causal), att_causal_name(p->causal));
    const uint32_t other = att_problem_traits(p) ^ scope->traits;
    const uint32_t first = other & (~other + 1);
    ATT_CONDITION(!other, "features", "is for problems %s %s",
                  scope->traits & first ? "with" : "without", att_trait_name(first));
    return true;
}
