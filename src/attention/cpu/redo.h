/* redo.h: recomputes one row in float64 after overflow in float32. */
#ifndef ATT_CPU_REDO_H
#define ATT_CPU_REDO_H

#include "attention/cpu/job.h"

/* Compute and store O and LSE of query position i of `head`. Reads only the keys that the row
 * sees, so that NaN and Inf elsewhere cannot affect it. Finite inputs cannot overflow. */
void att_cpu_redo_row(const att_cpu_job *job, const att_cpu_sequence *s, int64_t head,
                      int64_t i);

#endif
