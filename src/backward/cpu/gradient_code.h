/* gradient_code.h: the interface of every CPU gradient kernel. */
#ifndef ATT_BACKWARD_CPU_GRADIENT_CODE_H
#define ATT_BACKWARD_CPU_GRADIENT_CODE_H

#include "backward/cpu/gradient_job.h"
#include "core/kernel_row.h"

enum { ATT_CHUNK_STEP = 64 }; /* a chunk of keys is a multiple of this */

/* att_cpu_kernel.code of the family att_family_cpu_backward. */
typedef struct att_gradient_code {
    int64_t block_rows;                      /* rows per block */
    int64_t chunk_most;                      /* keys per chunk, a multiple of ATT_CHUNK_STEP */
    size_t (*scratch)(const att_problem *p); /* bytes per thread */
    int64_t (*sum_stride)(const att_problem *p); /* floats per row of the sums of d_q */
    bool flushes;                                /* products flush subnormal numbers to zero */
    /* Compute the facts of block `index` of pairs * blocks, and d_q of blocks that see no
     * key. */
    void (*prepare)(const att_gradient_job *job, int64_t index);
    /* Compute chunk `index` of chunks * pairs. Task 0 writes its own id into the launch
     * record. */
    void (*chunk)(const att_gradient_job *job, int64_t index, void *scratch);
    /* Compute piece `index` of d_bias; see bias_pieces.h. */
    void (*bias)(const att_gradient_job *job, int64_t index, void *scratch);
} att_gradient_code;

#endif
