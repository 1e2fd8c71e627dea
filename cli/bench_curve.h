/* bench_curve.h: speed as a function of size, drawn in text. */
#ifndef CLI_BENCH_CURVE_H
#define CLI_BENCH_CURVE_H

#include <stdio.h>

#include "lab/measure/bench.h"

/* A curve for every sequence of problems that forms one (lab/measure/curve.h), its cliffs
 * marked and counted. There are `subjects` cases per problem; those of the first are drawn. */
void cli_put_curves(FILE *text, const lab_bench_case *cases, size_t count, size_t subjects,
                    bool gpu);

#endif
