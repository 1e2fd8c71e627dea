/* select.c: the one selector. */
#include "core/select.h"

#include "base/error.h"
#include "core/device_kind.h"

static bool matches(const att_kernel_row *row, const att_limits *limits, att_refusal *refusal) {
    ATT_CONDITION(!limits->kernel[0] || att_kernel_matches(row->id, limits->kernel), "kernel",
                  "only %s may serve", limits->kernel);
    return true;
}

bool att_row_unattested(const att_kernel_row *row, const att_limits *limits) {
    if (!row->cuda || row->unattested)
        return row->unattested;
    const uint32_t attested = att_row_attested_targets(row);
    return limits->gpu ? !(attested & att_cuda_target_of(limits->gpu)) : !attested;
}

static bool is_attested(const att_kernel_row *row, const att_limits *limits,
                        att_refusal *refusal) {
    const bool holds = limits->allow_unattested || !att_row_unattested(row, limits);
    ATT_CONDITION(
        holds || !row->unattested, "flags",
        "is unattested: its evidence is not complete; ATT_ALLOW_UNATTESTED allows it");
    ATT_CONDITION(
        holds, "flags",
        "has no evidence on compute capability %d.%d; run 'attest certify' here, then "
        "set ATTEST_ALLOW_UNATTESTED=1 or ATT_ALLOW_UNATTESTED",
        limits->gpu->cc / 10, limits->gpu->cc % 10);
    return true;
}

size_t att_rows_count(const att_limits *limits) {
    return (limits->user ? limits->user->count : 0) + att_registry_count();
}

const att_kernel_row *att_rows_at(const att_limits *limits, size_t i) {
    const size_t user = limits->user ? limits->user->count : 0;
    return i < user ? &limits->user->list[i].row : att_registry_row(i - user);
}

bool att_rows_match(const att_limits *limits, const char *pattern) {
    for (size_t i = 0; i < att_rows_count(limits); i++) {
        const att_kernel_row *row = att_rows_at(limits, i);
        if (row->device == limits->device && att_kernel_matches(row->id, pattern))
            return true;
    }
    return false;
}

bool att_row_serves(const att_kernel_row *row, const att_limits *limits,
                    const att_operation *operation, const void *problem, att_refusal *refusal) {
    *refusal = (att_refusal){.step = 0};
    ATT_CONDITION(row->family->operation == operation, "operation", "computes %s, not %s",
                  row->family->operation->name, operation->name);
    if (!matches(row, limits, refusal))
        return false;
    if (row->scope && !(att_scope_has_gpu(row->scope, limits, refusal) &&
                        att_scope_has_problem(row->scope, operation, problem, refusal)))
        return false;
    return att_device_kind_of(row->device)->row_runs(row, limits, refusal) &&
           row->family->serves(row, limits, problem, refusal) &&
           is_attested(row, limits, refusal);
}

bool att_row_available(const att_kernel_row *row, const att_limits *limits) {
    att_refusal refusal = {.step = 0};
    if (row->device != limits->device)
        return false;
    if (row->scope && !att_scope_has_gpu(row->scope, limits, &refusal))
        return false;
    return att_device_kind_of(row->device)->row_runs(row, limits, &refusal);
}

/* The predicted time of the row; negative if unknown. */
static double estimate(const att_kernel_row *row, const att_limits *limits,
                       const void *problem) {
    return row->family->estimate ? row->family->estimate(row, limits, problem) : -1.0;
}

/* Do the two compete by their estimates? A user's row does not: it was made for the problem. */
static bool compete(const att_kernel_row *a, const att_kernel_row *b) {
    return a->family->estimate == b->family->estimate && !a->scope && !b->scope;
}

/* Among the rows that do not serve, the one that passed most conditions. */
typedef struct nearest {
    const att_kernel_row *row;
    att_refusal why;
} nearest;

/* A user's row is limited to a few problems: that it comes close says nothing about the
 * library. */
static void consider(nearest *near, const att_kernel_row *row, const att_refusal *refusal) {
    const int step = 2 * refusal->step + !row->family->special;
    if (row->scope || step <= near->why.step)
        return;
    *near = (nearest){row, *refusal};
    near->why.step = step;
}

/* Every row is asked once: whether one serves may depend on a compiler that is available now
 * and not a moment later. */
static const att_kernel_row *find(const att_limits *limits, const att_operation *operation,
                                  const void *problem, nearest *near) {
    const att_kernel_row *best = NULL;
    double least = 0.0;
    *near = (nearest){.why = {.step = -1}};
    for (size_t i = 0; i < att_rows_count(limits); i++) {
        const att_kernel_row *row = att_rows_at(limits, i);
        att_refusal refusal;
        if (row->device != limits->device || (best && !compete(row, best)))
            continue;
        if (!att_row_serves(row, limits, operation, problem, &refusal)) {
            consider(near, row, &refusal);
            continue;
        }
        const double time = estimate(row, limits, problem);
        if (!best || (time >= 0.0 && time < least)) {
            best = row;
            least = time;
        }
        if (least < 0.0)
            break;
    }
    return best;
}

const att_kernel_row *att_select_find(const att_limits *limits, const att_operation *operation,
                                      const void *problem) {
    nearest near;
    return find(limits, operation, problem, &near);
}

att_status att_select(const att_kernel_row **out, const att_limits *limits,
                      const att_operation *operation, const void *problem) {
    nearest near;
    *out = find(limits, operation, problem, &near);
    if (*out)
        return ATT_OK;
    ATT_REQUIRE(near.row, ATT_E_UNSUPPORTED, "device",
                "the library has no kernels for this device");
    return att_fail(ATT_E_UNSUPPORTED, near.why.field,
                    "no kernel serves this problem; nearest is %s: %s", near.row->id,
                    near.why.why);
}

static int explain_row(const att_kernel_row *row, const att_kernel_row *chosen,
                       const att_limits *limits, const att_operation *operation,
                       const void *problem, const char *detail, char *buf, size_t n) {
    const int width = att_device_kind_of(row->device)->id_width;
    att_refusal refusal;
    if (!att_row_serves(row, limits, operation, problem, &refusal))
        return snprintf(buf, n, "refused  %-*s %s: %s\n", width, row->id, refusal.field,
                        refusal.why);
    if (row == chosen)
        return snprintf(buf, n, "chosen   %-*s %s\n", width, row->id, detail);
    const bool estimated = compete(row, chosen) && estimate(row, limits, problem) >= 0.0;
    return snprintf(
        buf, n, "passed   %-*s serves it too, but %s\n", width, row->id,
        estimated ? "is not expected to be faster" : "is listed after the chosen one");
}

void att_select_explain(const att_limits *limits, const att_operation *operation,
                        const void *problem, const char *detail, char *buf, size_t n) {
    const att_kernel_row *chosen = att_select_find(limits, operation, problem);
    size_t used = 0;
    if (n)
        buf[0] = '\0';
    for (size_t i = 0; i < att_rows_count(limits) && used < n; i++) {
        const att_kernel_row *row = att_rows_at(limits, i);
        if (row->device == limits->device && row->family->operation == operation)
            used += (size_t)explain_row(row, chosen, limits, operation, problem, detail,
                                        buf + used, n - used);
    }
}
