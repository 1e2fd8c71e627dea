/* tiling.c: cut a problem into blocks for a GPU kernel, and launch them. */
#include "cuda/tiling.h"

#include "base/error.h"

att_status att_cuda_tiling_choose(att_cuda_tiling *tiling, att_cuda_device *device,
                                  const att_cuda_kernel *kernel, const att_cuda_kernel *combine,
                                  const att_cuda_source *source, const att_problem *p) {
    (void)combine;
    (void)p;
    *tiling = (att_cuda_tiling){.workspace = 0};
    return att_cuda_function_load(&tiling->function, device, kernel, source);
}

att_status att_cuda_forward(const att_cuda_tiling *tiling, const att_args *args,
                            void *workspace, void *stream) {
    (void)workspace;
    (void)stream;
    if (args->launch)
        att_cuda_launch_record(args->launch, tiling->function, &tiling->shape);
    return att_fail(ATT_E_UNSUPPORTED, "", "the launch of GPU kernels is not joined yet");
}
