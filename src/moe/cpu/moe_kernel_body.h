/* moe_kernel_body.h: the kernel of an instruction set; the including file defines ISA as its
 * name and includes its two steps first. */
#ifndef ATT_MOE_CPU_KERNEL_BODY_H
#define ATT_MOE_CPU_KERNEL_BODY_H

#include "moe/cpu/moe_code.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)
#define MOE         JOIN(moe_cpu_, ISA)

extern const att_cpu_kernel MOE;

static void run_second_named(const att_moe_job *job, int64_t task, void *scratch) {
    if (task == 0 && job->a->launch)
        job->a->launch->kernel = MOE.id;
    run_second(job, task, scratch);
}

static const att_moe_code code = {.transposes = TAKES_TRANSPOSED,
                                  .pairs = MULTIPLIES_PAIRS,
                                  .align = POSITION_ALIGN,
                                  .block_least = BLOCK_LEAST,
                                  .block_most = BLOCK_MOST,
                                  .scratch = tasks_scratch,
                                  .h_bytes = h_bytes,
                                  .first = run_first,
                                  .second = run_second_named};

const att_cpu_kernel MOE = {.id = TEXT(MOE), .code = &code};

#endif
