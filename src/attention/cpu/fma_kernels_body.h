/* fma_kernels_body.h: the two kernels of an instruction set that multiplies with FMA.
 *
 * The including file must have included its simd header and defined ISA as its name. */
#ifndef ATT_CPU_FMA_KERNELS_BODY_H
#define ATT_CPU_FMA_KERNELS_BODY_H

#include "attention/cpu/softmax_body.h"
#include "attention/cpu/fma_body.h"
#include "attention/cpu/tile_body.h"
#include "attention/cpu/decode_body.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

#define FWD    JOIN(fwd_cpu_, ISA)
#define DECODE JOIN(decode_cpu_, ISA)

extern const att_cpu_kernel FWD, DECODE;

static void run_fwd(const att_cpu_job *job, int64_t task, void *scratch) {
    if (task == 0 && job->a->launch)
        job->a->launch->kernel = FWD.id;
    tile_run(job, task, scratch);
}

static void run_decode(const att_cpu_job *job, int64_t task, void *scratch) {
    if (task == 0 && job->a->launch)
        job->a->launch->kernel = DECODE.id;
    decode_run(job, task, scratch);
}

static const att_cpu_code code_fwd = {
    .row_step = TILE_STRIP,
    .row_most = TILE_ROWS,
    .scratch = tile_scratch,
    .run = run_fwd,
    .combine = combine_task,
};

static const att_cpu_code code_decode = {
    .row_step = DECODE_ROWS,
    .row_most = DECODE_ROWS,
    .scratch = decode_scratch,
    .run = run_decode,
    .combine = combine_task,
};

const att_cpu_kernel FWD = {.id = TEXT(FWD), .code = &code_fwd};
const att_cpu_kernel DECODE = {.id = TEXT(DECODE), .code = &code_decode};

#endif
