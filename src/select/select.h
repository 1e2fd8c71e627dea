/* select.h: the one selector, which answers both "is it supported" and "which one runs". */
#ifndef ATT_SELECT_SELECT_H
#define ATT_SELECT_SELECT_H

#include "select/user_rows.h"

enum { ATT_KERNEL_PATTERN = 64 };

/* What the context allows. */
typedef struct att_limits {
    att_device
        device; /* ATT_DEVICE_CPU or ATT_DEVICE_CUDA: only rows of this device are looked at */
    att_isa isa;
    bool amx_f32;                    /* float32 may go to AMX */
    const att_cuda_limits *gpu;      /* NULL on the CPU */
    bool allow_slow;                 /* rungs of the ladder may serve */
    bool allow_unattested;           /* rows without evidence may */
    char kernel[ATT_KERNEL_PATTERN]; /* only ids that match; "": all */
    const att_user_rows *user;       /* looked at before the registry; NULL: none */
} att_limits;

/* Why a row does not serve a problem: the field at fault, "" where it does serve. */
typedef struct att_refusal {
    char field[24];
    char why[160];
    int step; /* how many conditions held before the one that did not */
} att_refusal;

/* The rows that a context chooses among, best first: the user's, then the registry. */
size_t att_rows_count(const att_limits *limits);
const att_kernel_row *att_rows_at(const att_limits *limits, size_t i);

/* Does `row`, of the context's device, serve `p`? The problem has been checked. */
bool att_row_serves(const att_kernel_row *row, const att_limits *limits, const att_problem *p,
                    att_refusal *refusal);

/* Could the context run this row at all, on some problem? */
bool att_row_available(const att_kernel_row *row, const att_limits *limits);

/* The first row that serves `p`, or NULL. */
const att_kernel_row *att_select_find(const att_limits *limits, const att_problem *p);

/* The same; ATT_E_UNSUPPORTED names the nearest one and the field that refused it. */
att_status att_select(const att_kernel_row **out, const att_limits *limits,
                      const att_problem *p);

/* The choice and every refusal as text, one row of the device a line; `detail` is put behind the chosen
 * one. */
void att_select_explain(const att_limits *limits, const att_problem *p, const char *detail,
                        char *buf, size_t n);

#endif
