/* curve.h: the speed of a sequence of problems that differ only in size, and where it falls. */
#ifndef LAB_CURVE_H
#define LAB_CURVE_H

#include "lab/measure/bench.h"

/* A sequence shorter than this is not a curve. */
enum { LAB_CURVE_LEAST = 8 };

/* Find the longest sequence of problems from `from` on that differ only in size and do not
 * become smaller; *end is one past its last. Only every `step`-th case, those of one subject,
 * is considered. */
void lab_curve_next(const lab_bench_case *cases, size_t count, size_t step, size_t from,
                    size_t *end);

/* How far a speed lies below those of its neighbours, as a fraction; 0 if it is not a cliff by
 * the rule below. A missing neighbour has the speed 0. */
double lab_fall(double before, double here, double after);

/* A cliff: how far the speed at case `i` of the curve [from, end) lies below that of its
 * neighbours, as a fraction; 0 if there is no cliff. It is one if the speed is more than 15 %
 * below that of the smaller neighbour, or below that one at all and more than 15 % below the
 * larger neighbour's: small problems are slower anyway. */
double lab_curve_fall(const lab_bench_case *cases, size_t step, size_t from, size_t end,
                      size_t i);

#endif
