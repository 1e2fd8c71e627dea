/* gradient_heads.h: the gradients with one number per head: sinks and slopes. */
#ifndef ATT_BACKWARD_CPU_GRADIENT_HEADS_H
#define ATT_BACKWARD_CPU_GRADIENT_HEADS_H

#include "backward/cpu/gradient_job.h"

/* d_sinks and d_alibi of a query head, once the sums of its rows are complete; in float64, row
 * by row. */
void att_gradient_store_head(const att_gradient_job *job, int64_t head);

#endif
