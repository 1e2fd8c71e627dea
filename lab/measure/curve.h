/* curve.h: the speed of problems that differ in size alone, one after the other, and where it falls. */
#ifndef LAB_CURVE_H
#define LAB_CURVE_H

#include "lab/measure/bench.h"

/* A row of problems shorter than this makes no curve. */
enum { LAB_CURVE_LEAST = 8 };

/* The first `*end - from` problems from `from` on that differ in sizes alone, which do not become smaller; of the cases only
 * every `step`-th, those of one subject, are looked at. */
void lab_curve_next(const lab_bench_case *cases, size_t count, size_t step, size_t from,
                    size_t *end);

/* How far a speed lies below those of its neighbours, a share; 0 where it is no cliff, by the rule below. A neighbour that is
 * not there has the speed 0. */
double lab_fall(double before, double here, double after);

/* A cliff: how far the speed at case `i` of the curve [from, end) lies below what its neighbours have, a share; 0 where it is none. It is
 * one where the speed is more than 15 % below that of the smaller neighbour, or below that and more than 15 % below the
 * larger one's: small problems are slower for what they are. */
double lab_curve_fall(const lab_bench_case *cases, size_t step, size_t from, size_t end,
                      size_t i);

#endif
