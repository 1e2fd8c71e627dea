/* family.h: one table per kernel source, or kind of CPU kernel: the problems it refuses, how it
 * cuts the work, and its launch.
 *
 * GPU rows of kernels.def name a source; its family is att_family_<source>. CPU rows name a
 * kind; its family is att_family_cpu_<kind>. */
#ifndef ATT_CORE_FAMILY_H
#define ATT_CORE_FAMILY_H

#include "core/limits.h"
#include "core/operation.h"
#include "core/kernel_row.h"

struct att_context;
struct att_plan;

typedef struct att_family {
    const att_operation *operation;
    const char *role;   /* for CPU rows: "fwd", "decode" */
    int d_most;         /* for CPU rows: the largest head dimension served */
    size_t state_bytes; /* plan state, filled by cut() */

    unsigned asks; /* operation-specific bits, for serves() */

    /* For few problems only: named as the nearest kernel only if no other comes as close. */
    bool special;

    /* Does the row serve the problem? Device, availability and the problem have already been
     * checked. */
    bool (*serves)(const att_kernel_row *row, const att_limits *limits, const void *problem,
                   att_refusal *refusal);

    /* The row's predicted time, in units common to the families that share this function. Among
     * the rows that serve a problem and share it with the first of them, the fastest is chosen.
     * Negative: unknown. If NULL, or unknown for the first, the order of kernels.def
     * decides. */
    double (*estimate)(const att_kernel_row *row, const att_limits *limits,
                       const void *problem);

    /* Load the code, cut the problem, and fill in `state` and the bytes of workspace. */
    att_status (*cut)(void *state, size_t *workspace, const struct att_context *ctx,
                      const att_kernel_row *row, const void *problem);

    /* Compute. The arguments have already been checked. */
    att_status (*run)(const struct att_plan *plan, const void *args, void *workspace,
                      void *stream);

    /* How the problem was cut, as text. */
    void (*describe)(const struct att_plan *plan, char *text, size_t n);

    /* For a kernel that only helps others (att_role_helps()): may a run of `row` for the
     * problem launch `step`? Whether the keys are split is decided later. NULL for others. */
    bool (*steps_in)(const att_kernel_row *step, const att_kernel_row *row,
                     const void *problem);

    /* May a user's row have these rows, keys, stages and warps? If not, `why` says what the
     * source requires. NULL: no user rows. */
    bool (*tile_fits)(const int tile[4], char *why, size_t n);
} att_family;

#endif
