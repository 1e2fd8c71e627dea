/* cpu_floor.h: the time that no program on this machine's processors can go below. */
#ifndef LAB_CPU_FLOOR_H
#define LAB_CPU_FLOOR_H

#include "lab/problem/spec.h"

/* Operations a second that all processors which this process may use do at most together: twice what the widest
 * instructions that they have are known for, at a clock that none has. */
double lab_cpu_peak(void);

/* Nanoseconds of a call at that rate. A floor, not a roofline: real programs are an order of magnitude above it. */
double lab_cpu_floor_ns(const lab_spec *spec);

#endif
