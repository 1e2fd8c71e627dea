/* exact.h: gradients one row or one key at a time in float64, for results that overflow
 * float32. */
#ifndef ATT_BACKWARD_CPU_EXACT_H
#define ATT_BACKWARD_CPU_EXACT_H

#include "backward/cpu/gradient_job.h"

enum { ATT_BACKWARD_CPU_D_MAX = 256 }; /* the largest head dimension */

/* A float32 lse above this is off by more than 2^-5, and so is every weight that it normalises:
 * above this it is recomputed in float64. */
#define ATT_BACKWARD_LSE_MOST 0x1p20

/* One query row, widened. */
typedef struct att_exact_row {
    const att_gradient_job *job;
    const att_cpu_sequence *s;
    int64_t head, position;
    att_cpu_interval seen;
    double lse, delta;
    double q[ATT_BACKWARD_CPU_D_MAX], d_o[ATT_BACKWARD_CPU_D_MAX];
} att_exact_row;

/* Load packed row r of a pair, whose facts are known. */
void att_exact_row_load(att_exact_row *row, const att_gradient_job *job,
                        const att_cpu_sequence *s, int64_t r, const att_row_fact *fact);

/* The log-sum-exp of packed row r, which sees `seen`. */
double att_exact_lse(const att_gradient_job *job, const att_cpu_sequence *s, int64_t r,
                     att_cpu_interval seen);

/* A row and a key: the weight, and the derivatives with respect to the final score and to scale
 * * dot(q, k). */
typedef struct att_exact_pair {
    double p, d_s, d_x;
} att_exact_pair;

/* All zero if the row does not see key j. */
att_exact_pair att_exact_pair_of(const att_exact_row *row, int64_t j);

/* d_q of packed row r, and d_k and d_v of key j of a pair, rounded and stored. */
void att_exact_store_d_q(const att_gradient_job *job, const att_cpu_sequence *s, int64_t r);
void att_exact_store_d_kv(const att_gradient_job *job, const att_cpu_sequence *s, int64_t j);

#endif
