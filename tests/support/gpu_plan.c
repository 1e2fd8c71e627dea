/* gpu_plan.c: a problem planned for one row on the fake GPU. */
#include "tests/support/gpu_plan.h"

#include <string.h>

#include "tests/support/check.h"

/* What planning needs from a context: the device, and code that is not cached. */
static att_context context_of(int index) {
    att_context ctx = {.source = {.cache_dir = ""}};
    assert_ok(att_cuda_device_open(&ctx.gpu, index));
    ctx.limits = (att_limits){.device = ATT_DEVICE_CUDA,
                              .gpu = att_cuda_device_limits(ctx.gpu),
                              .allow_slow = true,
                              .allow_unattested = true};
    return ctx;
}

att_status gpu_plan_cut(gpu_plan *out, int device, const att_kernel_row *row,
                        const att_problem *p) {
    const att_context ctx = context_of(device);
    assert_int_equal(row->family->state_bytes, sizeof out->tiling);
    *out = (gpu_plan){.row = row};
    memset(&out->tiling, 0x5a, sizeof out->tiling); /* cut() must set everything that run()
                                                     * reads */
    out->workspace = SIZE_MAX;
    return row->family->cut(&out->tiling, &out->workspace, &ctx, row, p);
}

att_status gpu_plan_run(const gpu_plan *plan, const att_args *args, void *workspace,
                        void *stream) {
    att_cuda_tiling tiling = plan->tiling;
    const att_plan whole = {.operation = plan->row->family->operation,
                            .kernel = plan->row,
                            .workspace = plan->workspace,
                            .state = &tiling};
    return plan->row->family->run(&whole, args, workspace, stream);
}

const att_kernel_row *gpu_row_named(const char *id) {
    for (size_t i = 0; i < att_registry_count(); i++)
        if (att_registry_row(i)->cuda && strcmp(att_registry_row(i)->id, id) == 0)
            return att_registry_row(i);
    fail_msg("no row is called %s", id);
    return NULL;
}

const att_family *gpu_family_of(const char *source) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (row->cuda && strcmp(row->cuda->source, source) == 0)
            return row->family;
    }
    fail_msg("no row is compiled from %s", source);
    return NULL;
}

att_kernel_row gpu_row_of(const att_cuda_kernel *kernel) {
    return (att_kernel_row){.id = kernel->id,
                            .summary = "",
                            .family = gpu_family_of(kernel->source),
                            .device = ATT_DEVICE_CUDA,
                            .cuda = kernel};
}
