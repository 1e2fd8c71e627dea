/* user_scope.c: the problems and the GPU that a user's row is limited to. */
#include <string.h>

#include "core/user_rows.h"

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

/* The index of the lowest bit: the lowest trait in which the two differ. */
static size_t first_bit(uint32_t bits) {
    size_t i = 0;
    while (!(bits >> i & 1u))
        i++;
    return i;
}

bool att_scope_has_problem(const att_row_scope *scope, const att_operation *operation,
                           const void *problem, att_refusal *refusal) {
    for (size_t i = 0; i < operation->size_count; i++) {
        const char *name = operation->sizes[i].name;
        const long long value = att_size_of(&operation->sizes[i], problem);
        const long long low = scope->sizes[i].low, high = scope->sizes[i].high;
        ATT_CONDITION(value >= low && value <= high, name,
                      "%s=%lld is not in the %lld..%lld that it is for", name, value, low,
                      high);
    }
    const int mode = operation->mode(problem);
    ATT_CONDITION(mode == scope->mode, operation->mode_field, "is for %s %s, not %s",
                  operation->mode_field, operation->mode_names[scope->mode],
                  operation->mode_names[mode]);
    const uint32_t other = operation->traits(problem) ^ scope->traits;
    ATT_CONDITION(!other, "features", "is for problems %s %s",
                  scope->traits >> first_bit(other) & 1u ? "with" : "without",
                  operation->trait_names[first_bit(other)]);
    return true;
}
