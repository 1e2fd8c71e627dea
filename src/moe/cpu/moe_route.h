/* moe_route.h: the experts of tokens on the CPU, and the order in which their slots are
 * computed. */
#ifndef ATT_MOE_CPU_ROUTE_H
#define ATT_MOE_CPU_ROUTE_H

#include "moe/cpu/moe_job.h"

/* Compute the experts and weights of one token of the chunk, into the job and into the
 * requested outputs; and its row of x in float32, if the job has room for that. */
void att_moe_route_token(const att_moe_job *job, int64_t token);

/* Assign positions to all slots of the chunk: by expert, those of an expert in the order of
 * tokens, the first of each at a multiple of `align`. Adds to args.counts if requested. */
void att_moe_sort_slots(att_moe_job *job, int64_t align);

#endif
