/* bench_processes.h: the same benchmark in further processes, whose samples join those of this one. */
#ifndef CLI_BENCH_PROCESSES_H
#define CLI_BENCH_PROCESSES_H

#include "cli/session.h"
#include "lab/measure/bench.h"

/* Run --processes less one further processes, one after the other, with the same command line and other
 * seeds, and merge their samples into the cases. Complains where one cannot be run or says something
 * else than it was asked for. An interrupt ends it early; *done counts the processes whose samples are there. */
cli_exit cli_bench_further_processes(const cli_session *session, lab_bench_case *cases,
                                     size_t count, int64_t *done);

#endif
