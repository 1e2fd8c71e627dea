/* gradient_kernel_body.h: the kernel of an instruction set; the including file defines ISA as
 * its name. */
#ifndef ATT_BACKWARD_CPU_GRADIENT_KERNEL_BODY_H
#define ATT_BACKWARD_CPU_GRADIENT_KERNEL_BODY_H

#include "backward/cpu/gradient_code.h"
#include "backward/cpu/gradient_walk_body.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)
#define BWD         JOIN(bwd_cpu_, ISA)

_Static_assert(CHUNK_KEYS % ATT_CHUNK_STEP == 0, "the largest chunk is whole steps");

extern const att_cpu_kernel BWD;

static void run_chunk(const att_gradient_job *job, int64_t index, void *scratch) {
    if (index == 0 && job->base.a->launch)
        job->base.a->launch->kernel = BWD.id;
    products_enter();
    chunk_run(job, index, scratch);
    products_leave();
}

static void run_bias(const att_gradient_job *job, int64_t index, void *scratch) {
    products_enter();
    bias_run(job, index, scratch);
    products_leave();
}

static const att_gradient_code code = {.block_rows = BLOCK_ROWS,
                                       .chunk_most = CHUNK_KEYS,
                                       .scratch = tile_scratch,
                                       .sum_stride = sum_stride,
                                       .flushes = PRODUCTS_FLUSH,
                                       .prepare = prepare_block,
                                       .chunk = run_chunk,
                                       .bias = run_bias};

const att_cpu_kernel BWD = {.id = TEXT(BWD), .code = &code};

#endif
