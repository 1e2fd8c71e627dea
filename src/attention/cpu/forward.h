/* forward.h: cut a problem into tasks for a kernel, and run them. */
#ifndef ATT_CPU_FORWARD_H
#define ATT_CPU_FORWARD_H

#include "attention/cpu/kernel.h"
#include "cpu/pool.h"

/* Choose the rows per task, the splits of the keys, and how many of `threads_most` threads are
 * worth using. */
att_status att_cpu_tiling_choose(att_cpu_tiling *tiling, const att_cpu_code *kernel,
                                 const att_problem *p, int threads_most);

/* Bytes of workspace that a run needs. */
size_t att_cpu_workspace(const att_cpu_tiling *tiling);

/* Compute. The arguments must have been checked. */
void att_cpu_forward(const att_cpu_code *kernel, const att_cpu_tiling *tiling,
                     const att_problem *p, const att_args *a, void *workspace, att_pool *pool);

#endif
