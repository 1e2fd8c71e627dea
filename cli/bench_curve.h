/* bench_curve.h: how speed goes with size, drawn in text. */
#ifndef CLI_BENCH_CURVE_H
#define CLI_BENCH_CURVE_H

#include <stdio.h>

#include "lab/measure/bench.h"

/* A curve for every row of problems that is one (lab/measure/curve.h), its cliffs marked and counted. `subjects` cases a problem; the first
 * one's are drawn. */
void cli_put_curves(FILE *text, const lab_bench_case *cases, size_t count, size_t subjects,
                    bool gpu);

#endif
