/* isa_avx512_bf16.c: the bfloat16 kernel for AVX512-BF16: twice the products of an FMA per
 * instruction. */
#include "cpu/simd_wide.h"

#define NV 4 /* vectors per panel: MR * NV sums and NV operands fill the registers */

#include "attention/cpu/softmax_body.h"
#include "attention/cpu/bf16_body.h"
#include "attention/cpu/tile_body.h"

extern const att_cpu_kernel fwd_cpu_avx512_bf16;

static void run_fwd(const att_cpu_job *job, int64_t task, void *scratch) {
    if (task == 0 && job->a->launch)
        job->a->launch->kernel = fwd_cpu_avx512_bf16.id;
    tile_run(job, task, scratch);
}

static const att_cpu_code code_fwd = {
    .row_step = TILE_STRIP,
    .row_most = TILE_ROWS,
    .scratch = tile_scratch,
    .run = run_fwd,
    .combine = combine_task,
};

const att_cpu_kernel fwd_cpu_avx512_bf16 = {.id = "fwd_cpu_avx512_bf16", .code = &code_fwd};
