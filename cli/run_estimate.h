/* run_estimate.h: how long a run will take, before it is begun. */
#ifndef CLI_RUN_ESTIMATE_H
#define CLI_RUN_ESTIMATE_H

#include "cli/session.h"

/* Seconds of one run of `problem`, which has so many operations, by the speed of a smaller problem of its kind. 0 where that is
 * not worth asking, or cannot be told: on a GPU, and where there is little to compute. */
double cli_estimate_run(const cli_session *session, const att_problem *problem, double flops);

/* A line on stderr, where the runs will take long. */
void cli_tell_estimate(double seconds, int64_t repeats);

#endif
