/* limits.h: what a context allows, and why a row does not serve a problem. */
#ifndef ATT_CORE_LIMITS_H
#define ATT_CORE_LIMITS_H

#include <stdbool.h>
#include <stdio.h>

#include "attest.h"
#include "cuda/device.h"

enum { ATT_KERNEL_PATTERN = 64 };

struct att_user_rows;

/* What the context allows. */
typedef struct att_limits {
    att_device
        device; /* ATT_DEVICE_CPU or ATT_DEVICE_CUDA: only rows of this device are looked at */
    att_isa isa;
    bool amx_f32;                     /* float32 may go to AMX */
    const att_cuda_limits *gpu;       /* NULL on the CPU */
    bool allow_slow;                  /* rungs of the ladder may serve */
    bool allow_unattested;            /* rows without evidence may */
    char kernel[ATT_KERNEL_PATTERN];  /* only ids that match; "": all */
    const struct att_user_rows *user; /* looked at before the registry; NULL: none */
} att_limits;

/* Why a row does not serve a problem: the field at fault, "" where it does serve. */
typedef struct att_refusal {
    char field[24];
    char why[160];
    int step; /* how many conditions held before the one that did not */
} att_refusal;

/* Conditions in order: `refusal->step` counts them, so that of several refusals the one that came furthest
 * is known. A condition that does not hold names its field and ends the function. */
#define ATT_CONDITION(holds, name, ...)                                                        \
    do {                                                                                       \
        refusal->step++;                                                                       \
        if (!(holds)) {                                                                        \
            snprintf(refusal->field, sizeof refusal->field, "%s", name);                       \
            snprintf(refusal->why, sizeof refusal->why, __VA_ARGS__);                          \
            return false;                                                                      \
        }                                                                                      \
    } while (0)

#endif
