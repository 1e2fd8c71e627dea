/* select.c: the one selector. */
#include "select/select.h"

#include <stdio.h>

#include "base/error.h"
#include "select/conditions.h"

static bool matches(const att_kernel_row *row, const att_limits *limits, att_refusal *refusal) {
    ATT_CONDITION(!limits->kernel[0] || att_kernel_matches(row->id, limits->kernel), "kernel",
                  "only %s may serve", limits->kernel);
    return true;
}

static bool is_attested(const att_kernel_row *row, const att_limits *limits,
                        att_refusal *refusal) {
    ATT_CONDITION(
        !row->unattested || limits->allow_unattested, "flags",
        "is unattested: its evidence is not complete; ATT_ALLOW_UNATTESTED allows it");
    return true;
}

size_t att_rows_count(const att_limits *limits) {
    return (limits->user ? limits->user->count : 0) + att_registry_count();
}

const att_kernel_row *att_rows_at(const att_limits *limits, size_t i) {
    const size_t user = limits->user ? limits->user->count : 0;
    return i < user ? &limits->user->list[i].row : att_registry_row(i - user);
}

bool att_row_serves(const att_kernel_row *row, const att_limits *limits, const att_problem *p,
                    att_refusal *refusal) {
    *refusal = (att_refusal){.step = 0};
    if (!matches(row, limits, refusal))
        return false;
    if (row->scope && !(att_scope_has_gpu(row->scope, limits, refusal) &&
                        att_scope_has_problem(row->scope, p, refusal)))
        return false;
    return (row->cuda ? att_cuda_row_serves(row->cuda, limits, p, refusal)
                      : att_cpu_row_serves(row, limits, p, refusal)) &&
           is_attested(row, limits, refusal);
}

bool att_row_available(const att_kernel_row *row, const att_limits *limits) {
    att_refusal refusal = {.step = 0};
    if (row->device != limits->device)
        return false;
    if (row->scope && !att_scope_has_gpu(row->scope, limits, &refusal))
        return false;
    return row->cuda ? att_cuda_row_runs(row->cuda, limits, &refusal) : row->isa <= limits->isa;
}

const att_kernel_row *att_select_find(const att_limits *limits, const att_problem *p) {
    att_refusal refusal;
    for (size_t i = 0; i < att_rows_count(limits); i++) {
        const att_kernel_row *row = att_rows_at(limits, i);
        if (row->device == limits->device && att_row_serves(row, limits, p, &refusal))
            return row;
    }
    return NULL;
}

/* Kernels for a few rows refuse most problems: they are nearest only where nothing else comes as far. */
static bool for_few_rows(const att_kernel_row *row) {
    return row->cuda ? row->cuda->role == ATT_ROLE_DECODE : row->family == ATT_FAMILY_DECODE;
}

att_status att_select(const att_kernel_row **out, const att_limits *limits,
                      const att_problem *p) {
    *out = att_select_find(limits, p);
    if (*out)
        return ATT_OK;
    const att_kernel_row *near = NULL;
    att_refusal why = {.step = -1};
    for (size_t i = 0; i < att_rows_count(limits); i++) {
        const att_kernel_row *row = att_rows_at(limits, i);
        att_refusal refusal;
        /* A user's row is kept to a few problems: that it is near says nothing of the library. */
        if (row->device != limits->device || row->scope)
            continue;
        att_row_serves(row, limits, p, &refusal);
        refusal.step = 2 * refusal.step + !for_few_rows(row);
        if (refusal.step > why.step) {
            near = row;
            why = refusal;
        }
    }
    ATT_REQUIRE(near, ATT_E_UNSUPPORTED, "device",
                "the library has no kernels for this device");
    return att_fail(ATT_E_UNSUPPORTED, why.field,
                    "no kernel serves this problem; nearest is %s: %s", near->id, why.why);
}

void att_select_explain(const att_limits *limits, const att_problem *p, const char *detail,
                        char *buf, size_t n) {
    size_t used = 0;
    bool chosen = false;
    if (n)
        buf[0] = '\0';
    for (size_t i = 0; i < att_rows_count(limits) && used < n; i++) {
        const att_kernel_row *row = att_rows_at(limits, i);
        const int width = limits->device == ATT_DEVICE_CUDA ? 32 : 20;
        att_refusal refusal;
        int wrote;
        if (row->device != limits->device)
            continue;
        if (!att_row_serves(row, limits, p, &refusal))
            wrote = snprintf(buf + used, n - used, "refused  %-*s %s: %s\n", width, row->id,
                             refusal.field, refusal.why);
        else if (!chosen)
            wrote =
                snprintf(buf + used, n - used, "chosen   %-*s %s\n", width, row->id, detail);
        else
            wrote = snprintf(buf + used, n - used,
                             "passed   %-*s serves it too, but stands below the chosen one\n",
                             width, row->id);
        chosen = chosen || refusal.field[0] == '\0';
        used += (size_t)wrote;
    }
}
