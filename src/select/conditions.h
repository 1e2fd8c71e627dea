/* conditions.h: what each kind of kernel asks of a problem. */
#ifndef ATT_SELECT_CONDITIONS_H
#define ATT_SELECT_CONDITIONS_H

#include <stdio.h>

#include "select/select.h"

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

bool att_cpu_row_serves(const att_kernel_row *row, const att_limits *limits,
                        const att_problem *p, att_refusal *refusal);
bool att_cuda_row_serves(const att_cuda_kernel *kernel, const att_limits *limits,
                         const att_problem *p, att_refusal *refusal);

/* Where a user's row may serve: its GPU, its problems (user_scope.c). */
bool att_scope_has_gpu(const att_row_scope *scope, const att_limits *limits,
                       att_refusal *refusal);
bool att_scope_has_problem(const att_row_scope *scope, const att_problem *p,
                           att_refusal *refusal);

/* The part of them that no problem changes. */
bool att_cuda_row_runs(const att_cuda_kernel *kernel, const att_limits *limits,
                       att_refusal *refusal);

#endif
