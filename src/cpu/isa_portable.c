/* isa_portable.c: the kernels for plain C. */
#include "cpu/simd_portable.h"

#define NV           2 /* vectors of a panel: MR * NV sums and NV operands fill the registers */
#define DECODE_BATCH 2

#include "cpu/softmax_body.h"
#include "cpu/fma_body.h"
#include "cpu/tile_body.h"
#include "cpu/decode_body.h"

static void run_fwd(const att_cpu_job *job, int64_t task, void *scratch) {
    if (task == 0 && job->a->launch)
        job->a->launch->kernel = fwd_cpu_portable.id;
    tile_run(job, task, scratch);
}

static void run_decode(const att_cpu_job *job, int64_t task, void *scratch) {
    if (task == 0 && job->a->launch)
        job->a->launch->kernel = decode_cpu_portable.id;
    decode_run(job, task, scratch);
}

const att_cpu_kernel fwd_cpu_portable = {
    .id = "fwd_cpu_portable",
    .row_step = TILE_STRIP,
    .row_most = TILE_ROWS,
    .scratch = tile_scratch,
    .run = run_fwd,
    .combine = combine_task,
};

const att_cpu_kernel decode_cpu_portable = {
    .id = "decode_cpu_portable",
    .row_step = DECODE_ROWS,
    .row_most = DECODE_ROWS,
    .scratch = decode_scratch,
    .run = run_decode,
    .combine = combine_task,
};
