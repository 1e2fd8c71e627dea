/* moe_route.h: the experts of tokens on the CPU, and the order in which their slots are computed. */
#ifndef ATT_MOE_CPU_ROUTE_H
#define ATT_MOE_CPU_ROUTE_H

#include "moe/cpu/moe_job.h"

/* Experts and weights of one token of the chunk, into the job and where they are asked for; its row of x in
 * float32 where the job has room for that. */
void att_moe_route_token(const att_moe_job *job, int64_t token);

/* Positions of all slots of the chunk: by expert, those of an expert in the order of tokens, the
 * first of each at a multiple of `align`. Adds to args.counts where it is asked for. */
void att_moe_sort_slots(att_moe_job *job, int64_t align);

#endif
