/* run.c: checks a run, then runs it. Nothing is written before every check has passed. */
#include "base/error.h"
#include "base/sized.h"
#include "core/device_kind.h"
#include "core/plan.h"

static att_status check_buffer(const att_buffer *b, size_t alignment) {
    if (b->absent) {
        ATT_REQUIRE(!b->base, ATT_E_ARG, b->name,
                    "%s is set, but the problem's features do not name it", b->name);
        return ATT_OK;
    }
    ATT_REQUIRE(b->base || b->extent == 0, ATT_E_ARG, b->name, "%s is NULL", b->name);
    ATT_REQUIRE((uintptr_t)b->base % alignment == 0, ATT_E_ARG, b->name,
                "%s is not aligned to %zu bytes, its elements or the problem's alignment",
                b->name, alignment);
    ATT_REQUIRE((uintptr_t)b->base <= UINTPTR_MAX - (uint64_t)b->extent, ATT_E_OVERFLOW,
                b->name, "%s reaches past the end of the address space", b->name);
    return ATT_OK;
}

static bool overlap(const att_buffer *a, const att_buffer *b) {
    const uintptr_t a0 = (uintptr_t)a->base, b0 = (uintptr_t)b->base;
    if (!a->base || !b->base || a->extent == 0 || b->extent == 0)
        return false;
    return a0 < b0 + (uint64_t)b->extent && b0 < a0 + (uint64_t)a->extent;
}

static att_status check_workspace(const att_plan *plan, const void *workspace, size_t said) {
    ATT_REQUIRE(workspace || plan->workspace == 0, ATT_E_WORKSPACE, "workspace",
                "workspace is NULL, %zu bytes are needed", plan->workspace);
    ATT_REQUIRE(said == 0 || said >= plan->workspace, ATT_E_WORKSPACE, "workspace_size",
                "workspace_size=%zu, %zu bytes are needed", said, plan->workspace);
    ATT_REQUIRE((uintptr_t)workspace % ATT_WORKSPACE_ALIGN == 0, ATT_E_WORKSPACE, "workspace",
                "workspace is not aligned to %d bytes", ATT_WORKSPACE_ALIGN);
    return ATT_OK;
}

static bool interleaved(const att_plan *plan, const att_buffer *list, int i, int j) {
    return plan->operation->interleaved &&
           plan->operation->interleaved(plan->problem, list, i, j);
}

/* No output overlaps anything else. */
static att_status check_overlaps(const att_plan *plan, const att_buffer *list, int count) {
    for (int i = 0; i < count; i++)
        for (int j = 0; list[i].output && j < count; j++)
            ATT_REQUIRE(i == j || !overlap(&list[i], &list[j]) || interleaved(plan, list, i, j),
                        ATT_E_ALIAS, list[i].name, "%s overlaps %s", list[i].name,
                        list[j].name);
    return ATT_OK;
}

/* List and check the buffers of the run, the workspace last; *count is their number. */
static att_status check_buffers(const att_plan *plan, const att_device_kind *kind,
                                const void *args, const void *workspace,
                                att_buffer list[ATT_BUFFERS_MAX], int *count) {
    size_t said = 0;
    int n = plan->operation->buffers(plan->problem, plan->extents, args, list, &said);
    for (int i = 0; i < n; i++)
        ATT_TRY(check_buffer(&list[i], kind->alignment(&list[i])));
    ATT_TRY(check_workspace(plan, workspace, said));
    list[n++] = (att_buffer){.name = "workspace",
                             .base = workspace,
                             .extent = (int64_t)plan->workspace,
                             .output = true};
    *count = n;
    return check_overlaps(plan, list, n);
}

att_status att_core_run(const att_plan *plan, const att_operation *operation, const void *args,
                        void *workspace, void *stream) {
    ATT_REQUIRE(plan, ATT_E_ARG, "plan", "plan is NULL");
    ATT_REQUIRE(args, ATT_E_ARG, "args", "args is NULL");
    ATT_REQUIRE(plan->operation == operation, ATT_E_ARG, "plan", "the plan computes %s, not %s",
                plan->operation->name, operation->name);
    const att_device_kind *kind = att_device_kind_of(plan->kernel->device);
    _Alignas(16) char a[ATT_ARGS_MAX];
    att_buffer list[ATT_BUFFERS_MAX];
    int count;
    ATT_TRY(att_sized_copy(a, operation->args_bytes, operation->args_first, args, "args"));
    ATT_TRY(check_buffers(plan, kind, a, workspace, list, &count));
    ATT_TRY(kind->check_run(plan->ctx, list, count, stream));
    if (kind->reads_data && operation->check_data)
        ATT_TRY(operation->check_data(plan->problem, a));
    return plan->kernel->family->run(plan, a, workspace, stream);
}
