/* isa_amx.c: the kernel for AMX-bf16, with AVX-512 for everything except products. */
#include "cpu/simd_avx512.h"

#include "attention/cpu/softmax_body.h"
#include "attention/cpu/amx_body.h"
#include "attention/cpu/tile_body.h"

extern const att_cpu_kernel fwd_cpu_amx;

static void run_fwd(const att_cpu_job *job, int64_t task, void *scratch) {
    if (task == 0 && job->a->launch)
        job->a->launch->kernel = fwd_cpu_amx.id;
    amx_enter();
    tile_run(job, task, scratch);
    amx_leave();
}

static const att_cpu_code code_fwd = {
    .row_step = TILE_STRIP,
    .row_most = TILE_ROWS,
    .scratch = tile_scratch,
    .run = run_fwd,
    .combine = combine_task,
};

const att_cpu_kernel fwd_cpu_amx = {.id = "fwd_cpu_amx", .code = &code_fwd};
