/* cpu_floor.h: a lower bound on the time of any program on this machine's processors. */
#ifndef LAB_CPU_FLOOR_H
#define LAB_CPU_FLOOR_H

#include "lab/problem/spec.h"

/* The most operations per second of all processors that this process may use: twice the known
 * rate of their widest instructions, at a clock rate that none reaches. */
double lab_cpu_peak(void);

/* The same of `count` processors with the widest instructions known, wherever they are. */
double lab_cpu_peak_anywhere(double count);

/* Nanoseconds of a call at lab_cpu_peak(). A floor, not a roofline: real programs are an order of
 * magnitude slower. */
double lab_cpu_floor_ns(const lab_spec *spec);

#endif
