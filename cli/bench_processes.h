/* bench_processes.h: the same benchmark in further processes, whose samples are merged into
 * this one's. */
#ifndef CLI_BENCH_PROCESSES_H
#define CLI_BENCH_PROCESSES_H

#include "cli/session.h"
#include "lab/measure/bench.h"

/* Run --processes minus one further processes, one after the other, with the same command line
 * and other seeds, and merge their samples into the cases. Prints an error if one cannot be run
 * or returns something unexpected. An interrupt ends it early; *done counts the processes whose
 * samples were merged. */
cli_exit cli_bench_further_processes(const cli_session *session, lab_bench_case *cases,
                                     size_t count, int64_t *done);

#endif
