/* user_rows.h: registry rows supplied by a user: a built-in row with other constants, for one
 * model of GPU and the problems that it names.
 *
 * The text is line-based; docs/tuning.md has the format. Everything is checked while reading:
 * the selector gets a row like the built-in ones, with a scope. */
#ifndef ATT_CORE_USER_ROWS_H
#define ATT_CORE_USER_ROWS_H

#include "core/registry.h"

enum { ATT_USER_ROWS_MAX = 128, ATT_USER_TEXT_MAX = 1 << 20 };

/* Both ends are inclusive. */
typedef struct att_range {
    int64_t low, high;
} att_range;

typedef struct att_row_scope {
    char gpu[64]; /* as the driver names it */
    int cc, sms;
    bool stale;                     /* the row was made for different source text */
    att_range sizes[ATT_SIZES_MAX]; /* in the order of the operation's */
    int mode;
    uint32_t traits;
} att_row_scope;

typedef struct att_user_row {
    att_kernel_row row; /* points at the fields that follow */
    att_cuda_kernel kernel;
    att_row_scope scope;
    char id[64], summary[256], defines[768];
} att_user_row;

typedef struct att_user_rows {
    size_t count;
    att_user_row list[];
} att_user_rows;

/* Read rows. Messages call the text `name` ("FILE"); errors name `field` ("rows_file").
 *
 * out     att_free() frees *out; NULL on failure
 * Errors  ATT_E_ARG: the text says NAME:LINE: FIELD: why; ATT_E_MEMORY */
att_status att_user_rows_read(att_user_rows **out, const char *text, const char *name,
                              const char *field);

/* Whether a user's row may serve: on its GPU, for its problems. */
bool att_scope_has_gpu(const att_row_scope *scope, const att_limits *limits,
                       att_refusal *refusal);
bool att_scope_has_problem(const att_row_scope *scope, const att_operation *operation,
                           const void *problem, att_refusal *refusal);

#endif
