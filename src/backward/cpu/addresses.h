/* addresses.h: the offsets of rows of gradients. */
#ifndef ATT_BACKWARD_CPU_ADDRESSES_H
#define ATT_BACKWARD_CPU_ADDRESSES_H

#include "attention/cpu/job.h"

/* Element offset of query position i in a tensor of one row per query, with strides `st`. */
static inline int64_t att_query_offset(const att_problem *p, const att_strides *st,
                                       const att_cpu_sequence *s, int64_t head, int64_t i) {
    const int64_t batch = p->features & ATT_CU_SEQLENS_Q ? 0 : s->batch * st->batch;
    return batch + head * st->head + (s->row_q + i) * st->row;
}

/* Element offset of key j, counted from the first in use. */
static inline int64_t att_key_offset(const att_problem *p, const att_strides *st,
                                     const att_cpu_sequence *s, int64_t j) {
    const int64_t batch = p->features & ATT_CU_SEQLENS_K ? 0 : s->batch * st->batch;
    return batch + s->head_kv * st->head + (s->row_k + j) * st->row;
}

/* The keys that a batch entry has storage for, counted from the first one in use. No row sees
 * those outside [0, len_k). */
static inline att_cpu_interval att_key_room(const att_problem *p, const att_args *a,
                                            const att_cpu_sequence *s) {
    int64_t keys = p->seq_k;
    if (p->features & ATT_CU_SEQLENS_K)
        keys = a->cu_seqlens_k[s->batch + 1] - a->cu_seqlens_k[s->batch];
    return (att_cpu_interval){-s->first_k, keys - s->first_k};
}

#endif
