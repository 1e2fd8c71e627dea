/* select.h: the registry and the one selector, which answers both "is it supported" and "which
 * one runs". */
#ifndef ATT_SELECT_SELECT_H
#define ATT_SELECT_SELECT_H

#include <stdbool.h>

#include "attest.h"
#include "cpu/kernel.h"

typedef enum att_family {
    ATT_FAMILY_FWD,   /* blocked tiles, any number of rows */
    ATT_FAMILY_DECODE /* a few rows, K/V streamed */
} att_family;

/* One row of the registry. */
typedef struct att_kernel_row {
    const char *id;
    const char *summary;
    att_device device;
    att_isa isa;
    att_family family;
    const att_cpu_kernel *cpu;
} att_kernel_row;

/* What the context allows. */
typedef struct att_limits {
    att_isa isa;
    bool amx_f32; /* float32 may go to AMX */
} att_limits;

/* Why a row does not serve a problem: the field at fault, "" where it does serve. */
typedef struct att_refusal {
    char field[24];
    char why[160];
} att_refusal;

/* The registry, best kernel first. */
size_t att_registry_count(void);
const att_kernel_row *att_registry_row(size_t i);

/* Does `row` serve `p`? The problem has been checked. */
bool att_row_serves(const att_kernel_row *row, const att_limits *limits, const att_problem *p,
                    att_refusal *refusal);

/* The first row that serves `p`, or NULL. */
const att_kernel_row *att_select_find(const att_limits *limits, const att_problem *p);

/* The same; ATT_E_UNSUPPORTED names the nearest one and the field that refused it. */
att_status att_select(const att_kernel_row **out, const att_limits *limits,
                      const att_problem *p);

/* The choice and every refusal as text, one row a line; `detail` is put behind the chosen one.
 */
void att_select_explain(const att_limits *limits, const att_problem *p, const char *detail,
                        char *buf, size_t n);

#endif
