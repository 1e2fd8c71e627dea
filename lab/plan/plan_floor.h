/* plan_floor.h: the least work of a problem, and the lower bound on the time of any kernel. */
#ifndef LAB_PLAN_FLOOR_H
#define LAB_PLAN_FLOOR_H

#include <stdbool.h>

#include "lab/plan/plan_device.h"
#include "lab/problem/lab_operation.h"

typedef enum lab_bound_kind {
    LAB_BOUND_TENSOR, /* the two products */
    LAB_BOUND_MEMORY,
    LAB_BOUND_EXP,
    LAB_BOUND_COUNT
} lab_bound_kind;

/* Seconds for each bound; the longest one is binding. */
typedef struct lab_floor {
    double seconds[LAB_BOUND_COUNT];
    lab_bound_kind binds;
} lab_floor;

void lab_work_of(lab_work *work, const lab_spec *spec);

/* With the rates that the maker states. float32 inputs use the rate of float32 instructions:
 * tensor cores round them. */
void lab_floor_of(lab_floor *floor, const lab_work *work, att_dtype dtype,
                  const lab_device *device);

/* The same with measured rates if the device has any; false if it has none. */
bool lab_reach_of(lab_floor *reach, const lab_work *work, att_dtype dtype,
                  const lab_device *device);

/* Seconds of the binding bound. */
double lab_floor_seconds(const lab_floor *floor);

/* "tensor", "memory", "exp". */
const char *lab_bound_name(lab_bound_kind kind);

#endif
