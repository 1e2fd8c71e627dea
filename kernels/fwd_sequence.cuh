/* fwd_sequence.cuh: the geometry of one batch entry: its lengths, the keys that a row sees, and
 * the offsets of rows. */
#ifndef ATT_FWD_SEQUENCE_CUH
#define ATT_FWD_SEQUENCE_CUH

#include "kernels/config.cuh"
#include "kernels/divide.cuh"

/* Keys are counted from the first one in use: key 0 is key first_k in the numbering of pages
 * and bias. A start therefore needs no mask and no tile of its own. */
typedef struct sequence {
    int batch;
    int len_q, len_k;
    long long row_q, row_k; /* first row in packed Q, O, LSE and K, V */
    int shift;              /* diagonal(i) = i + shift */
    int first_k;
} sequence;

/* The previous kernel on the stream may still be writing these. */
DEVICE bool reads_lengths(const att_fwd_params *p) {
    return p->cu_seqlens_q || p->cu_seqlens_k || p->lens_k || p->starts_k || p->q_offsets || p->k_offsets;
}

/* Lengths and offsets are unchecked data: they are clamped to the size of the tensors. */
DEVICE sequence sequence_of(const att_fwd_params *p, int batch) {
    sequence s = {batch, p->seq_q, p->seq_k, 0, 0, p->shift, 0};
    if (p->cu_seqlens_q) {
        const int begin = max(p->cu_seqlens_q[batch], 0), end = p->cu_seqlens_q[batch + 1];
        s.row_q = begin;
        s.len_q = max(0, (int)min((long long)min(end - begin, p->seq_q), p->total_q - begin));
    }
    if (p->cu_seqlens_k) {
        const int begin = max(p->cu_seqlens_k[batch], 0), end = p->cu_seqlens_k[batch + 1];
        s.row_k = begin;
        s.len_k = max(0, min(end - begin, p->seq_k));
        if (!p->page_table)
            s.len_k = max(0, (int)min((long long)s.len_k, p->total_k - begin));
    }
    if (p->lens_k)
        s.len_k = max(0, min(s.len_k, p->lens_k[batch]));
    if (p->flags & ATT_FWD_BOTTOM_RIGHT)
        s.shift = s.len_k - s.len_q;
    if (p->q_offsets || p->k_offsets) {
        const long long shift = p->offset + (p->q_offsets ? p->q_offsets[batch] : 0) -
                                (p->k_offsets ? p->k_offsets[batch] : 0);
        s.shift = (int)max((long long)p->shift_least, min(shift, (long long)p->shift_most));
    }
    if (p->starts_k) {
        s.first_k = max(0, min(s.len_k, p->starts_k[batch]));
        s.row_k += s.first_k;
        s.len_k -= s.first_k;
        s.shift -= s.first_k;
    }
    return s;
}

/* The keys [lo, hi) that query position i sees; none if hi <= lo. Both ends are non-decreasing
 * in i. */
DEVICE int visible_lo(const att_fwd_params *p, const sequence *s, int i) {
    return p->window_left < 0 ? 0 : max(0, i + s->shift - p->window_left);
}

DEVICE int visible_hi(const att_fwd_params *p, const sequence *s, int i) {
    return p->window_right < 0 ? s->len_k : min(s->len_k, i + s->shift + p->window_right + 1);
}

/* Element offset of row i of query head `head` in a tensor of Q's shape: Q, O, and LSE. */
DEVICE long long query_offset(const att_fwd_params *p, const sequence *s,
                              const att_fwd_strides *stride, int head, int i) {
    const long long batch = p->cu_seqlens_q ? 0 : s->batch * stride->batch;
    return batch + head * stride->head + (s->row_q + i) * stride->row;
}

/* Element offset of key j of K/V head `head` in K or V; -1 if its page does not exist. */
DEVICE long long key_offset(const att_fwd_params *p, const sequence *s,
                            const att_fwd_strides *stride, int head, int j) {
    if (p->page_table) {
        const int key = s->first_k + j;
        const int page = p->page_table[s->batch * p->page_table_stride + key / p->page_size];
        if (page < 0 || page >= p->num_pages)
            return -1;
        return page * stride->batch + head * stride->head + key % p->page_size * stride->row;
    }
    const long long batch = p->cu_seqlens_k ? 0 : s->batch * stride->batch;
    return batch + head * stride->head + (s->row_k + j) * stride->row;
}

#endif
