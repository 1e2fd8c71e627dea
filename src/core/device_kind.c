/* device_kind.c: the CPU and CUDA GPUs. */
#include "core/device_kind.h"

#include "base/error.h"
#include "core/context.h"
#include "cpu/features.h"
#include "cuda/module.h"
#include "cuda/pointers.h"
#include "cuda/shape.h"

/* ------------------------------------------------------------------------------------ CPU */

static bool cpu_row_runs(const att_kernel_row *row, const att_limits *limits,
                         att_refusal *refusal) {
    ATT_CONDITION(att_isa_includes(limits->isa, row->isa), "isa",
                  "needs %s, this context has %s", att_isa_name(row->isa),
                  att_isa_name(limits->isa));
    return true;
}

static size_t element_alignment(const att_buffer *buffer) {
    return buffer->element;
}

static att_status check_no_stream(const att_context *ctx, const att_buffer *list, int count,
                                  void *stream) {
    (void)ctx, (void)list, (void)count;
    ATT_REQUIRE(!stream, ATT_E_ARG, "stream", "stream is set, but the plan runs on the CPU");
    return ATT_OK;
}

/* ------------------------------------------------------------------------------------ GPU */

uint32_t att_cuda_target_of(const att_cuda_limits *gpu) {
    enum { AMPERE_SHARED = 163 * 1024 }; /* maximum per block on sm_80 */
    const uint32_t exact = att_cuda_target_bit(gpu->cc);
    if (exact)
        return exact;
    return gpu->shared_per_block >= AMPERE_SHARED ? ATT_SM80 : ATT_SM89;
}

/* A GPU that is known from its description alone has no driver. Nothing runs on it, so that a
 * library without the code of a row can still tell whether that row would serve. */
static bool is_described(const att_cuda_limits *gpu) {
    return gpu->driver == 0;
}

static bool cuda_row_runs(const att_kernel_row *row, const att_limits *limits,
                          att_refusal *refusal) {
    const att_cuda_kernel *k = row->cuda;
    const int cc = limits->gpu->cc;
    ATT_CONDITION(k->targets & att_cuda_target_of(limits->gpu), "cc",
                  "is not written for compute capability %d.%d", cc / 10, cc % 10);
    ATT_CONDITION(
        is_described(limits->gpu) || att_cuda_origin_of(k, cc) != ATT_ORIGIN_NONE, "cc",
        "the library has no code for compute capability %d.%d, and no compiler is found",
        cc / 10, cc % 10);
    const long long shared = att_cuda_kernel_shared(k);
    ATT_CONDITION(shared <= limits->gpu->shared_per_block, "device",
                  "needs %lld bytes of shared memory per block, the GPU has %d", shared,
                  limits->gpu->shared_per_block);
    return true;
}

static size_t vector_alignment(const att_buffer *buffer) {
    return buffer->vector > buffer->element ? buffer->vector : buffer->element;
}

/* Buffers in use must be memory that the GPU can access: any other pointer would fault there,
 * and a fault costs the process its device. */
static att_status check_reach(const att_context *ctx, const att_buffer *list, int count,
                              void *stream) {
    (void)stream;
    for (int i = 0; i < count && !ctx->trust_pointers; i++)
        if (list[i].base && list[i].extent > 0)
            ATT_TRY(att_cuda_pointer_check(ctx->gpu, list[i].base, list[i].name));
    return ATT_OK;
}

static const att_device_kind kinds[] = {
    [ATT_DEVICE_CPU] = {.name = "cpu",
                        .id_width = 20,
                        .reads_data = true,
                        .row_runs = cpu_row_runs,
                        .alignment = element_alignment,
                        .check_run = check_no_stream},
    [ATT_DEVICE_CUDA] = {.name = "cuda",
                         .id_width = 32,
                         .row_runs = cuda_row_runs,
                         .alignment = vector_alignment,
                         .check_run = check_reach},
};

const att_device_kind *att_device_kind_of(att_device device) {
    return &kinds[device];
}
