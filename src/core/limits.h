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
    att_device device; /* ATT_DEVICE_CPU or ATT_DEVICE_CUDA: only its rows are considered */
    att_isa isa;
    bool amx_f32;                     /* float32 may use AMX */
    const att_cuda_limits *gpu;       /* NULL on the CPU */
    bool allow_slow;                  /* rungs of the ladder may serve */
    bool allow_unattested;            /* rows without evidence may serve */
    char kernel[ATT_KERNEL_PATTERN];  /* only ids that match; "": all */
    const struct att_user_rows *user; /* considered before the registry; NULL: none */
} att_limits;

/* Why a row does not serve a problem: the field at fault, "" if it serves. */
typedef struct att_refusal {
    char field[24];
    char why[160];
    int step; /* how many conditions held before the one that did not */
} att_refusal;

/* Conditions are checked in order. `refusal->step` counts them, so that among several refusals
 * the one that passed most conditions is known. A condition that fails names its field and ends
 * the function. */
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
