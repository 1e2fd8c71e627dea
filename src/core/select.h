/* select.h: the single selector, which answers both "is it supported" and "which one runs". */
#ifndef ATT_CORE_SELECT_H
#define ATT_CORE_SELECT_H

#include "core/user_rows.h"

/* The rows that a context selects from, best first: the user's, then the registry. */
size_t att_rows_count(const att_limits *limits);
const att_kernel_row *att_rows_at(const att_limits *limits, size_t i);

/* Does the pattern match the id of one of them, for the context's device? */
bool att_rows_match(const att_limits *limits, const char *pattern);

/* Does `row`, of the context's device, serve a checked problem of `operation`? */
bool att_row_serves(const att_kernel_row *row, const att_limits *limits,
                    const att_operation *operation, const void *problem, att_refusal *refusal);

/* Does the row serve only if ATT_ALLOW_UNATTESTED allows it: marked as such, or without
 * evidence for the architecture of the context's GPU (without a GPU: for any)? */
bool att_row_unattested(const att_kernel_row *row, const att_limits *limits);

/* Could the context run this row at all, on some problem? */
bool att_row_available(const att_kernel_row *row, const att_limits *limits);

/* The row for the problem, or NULL: the first row that serves it or, if that one's family
 * estimates times, the one with the shortest estimate. */
const att_kernel_row *att_select_find(const att_limits *limits, const att_operation *operation,
                                      const void *problem);

/* The same; with ATT_E_UNSUPPORTED the error names the nearest row and the field that refused
 * it. */
att_status att_select(const att_kernel_row **out, const att_limits *limits,
                      const att_operation *operation, const void *problem);

/* The choice and every refusal as text, one row of the device and the operation per line;
 * `detail` is appended to the chosen one. */
void att_select_explain(const att_limits *limits, const att_operation *operation,
                        const void *problem, const char *detail, char *buf, size_t n);

#endif
