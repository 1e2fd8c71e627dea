/* run_estimate.h: how long a run will take, before it starts. */
#ifndef CLI_RUN_ESTIMATE_H
#define CLI_RUN_ESTIMATE_H

#include "cli/session.h"

/* Seconds of one run of a problem with that many floating-point operations, estimated from the
 * speed of a smaller problem of the same kind. 0 if that is not worthwhile or not possible: for
 * little work, on a GPU, and where specs have a prefix. */
double cli_estimate_run(const cli_session *session, const lab_operation *operation,
                        const void *problem, double flops);

/* Print a line on stderr if the runs will take long. */
void cli_tell_estimate(double seconds, int64_t repeats);

#endif
