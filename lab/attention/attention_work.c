/* attention_work.c: the work of a problem: pairs of rows and keys, operations, bytes. */
#include "attention/ref/oracle.h"
#include "base/checked.h"
#include "lab/attention/attention_lab.h"
#include "lab/attention/mask_patterns.h"

enum { ROWS_COUNTED = 512 /* for a mask, if there are more */ };

static double seen_by(const att_problem *p, const att_ref_sequence *s, int64_t row) {
    int64_t lo, hi;
    att_ref_visible(p, s, row, &lo, &hi);
    return (double)att_max(hi - lo, 0);
}

static void sort(int64_t *list, int n) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && list[j] < list[j - 1]; j--) {
            const int64_t swap = list[j];
            list[j] = list[j - 1];
            list[j - 1] = swap;
        }
}

/* The number of keys that a row sees is piecewise linear in the row's index, with a bend where
 * the diagonal or a side of the window enters or leaves the keys: each piece between two bends
 * is summed from its ends. */
double lab_visible_pairs(const att_problem *p, const att_ref_sequence *s) {
    const int64_t rows = s->len_q, keys = s->len_k, start = s->start_k;
    if (p->causal == ATT_CAUSAL_NONE && p->window_left < 0 && p->window_right < 0)
        return (double)rows * (double)att_max(keys - start, 0);
    const int64_t shift = att_ref_diagonal(p, s, 0);
    const int64_t most =
        rows + keys + (shift < 0 ? -shift : shift); /* a wider one hides nothing */
    const int64_t right = p->causal != ATT_CAUSAL_NONE ? 0 : att_min(p->window_right, most);
    const int64_t left = att_min(p->window_left, most);
    int64_t bends[] = {
        0,
        rows,
        start - (shift + right + 1), /* its last key is the first of all */
        keys - shift - right - 1,    /* its last key is the last of all */
        start + left - shift,        /* its first key is the first of all */
        keys + left - shift,         /* its first key is past all */
    };
    enum { BENDS = sizeof bends / sizeof bends[0] };
    for (int i = 0; i < BENDS; i++)
        bends[i] = att_min(att_max(bends[i], 0), rows);
    sort(bends, BENDS);
    double pairs = 0.0;
    for (int i = 0; i + 1 < BENDS; i++) {
        const int64_t first = bends[i], last = bends[i + 1] - 1;
        if (first <= last)
            pairs +=
                (seen_by(p, s, first) + seen_by(p, s, last)) * (double)(last - first + 1) / 2.0;
    }
    return pairs;
}

/* Sequences that differ are counted one by one; equal ones once. */
static int64_t sequences(const lab_spec *spec) {
    return lab_spec_varies(spec) ? spec->problem.batch : att_min(spec->problem.batch, 1);
}

static double times(const lab_spec *spec) {
    return lab_spec_varies(spec) ? 1.0 : (double)spec->problem.batch;
}

static bool has_pattern(const lab_spec *spec) {
    return spec->problem.features & ATT_BIAS && lab_mask_is_pattern(spec->bias_fill);
}

/* The keys of row i of a batch entry that the pattern of its bias leaves visible. */
static double left_by_pattern(const lab_spec *spec, int64_t b, int64_t i) {
    const att_problem *p = &spec->problem;
    const bool *one = spec->bias_broadcast;
    const att_ref_sequence s = lab_spec_sequence(spec, b);
    lab_mask_place at = {one[0] ? 0 : b, one[2] ? 0 : i, 0, one[0] ? p->seq_q : s.len_q,
                         one[0] ? p->seq_k : s.len_k};
    int64_t lo, hi;
    att_ref_visible(p, &s, i, &lo, &hi);
    if (one[3]) /* one element for all keys */
        return lab_mask_hides(spec->bias_fill, &at) ? 0.0 : (double)att_max(hi - lo, 0);
    at.j = lo;
    return (double)lab_mask_visible(spec->bias_fill, &at, hi);
}

/* Sum over all batch entries; if there are many rows, some represent their neighbours. */
static double pairs_by_pattern(const lab_spec *spec) {
    double pairs = 0.0;
    for (int64_t b = 0; b < spec->problem.batch; b++) {
        const int64_t rows = lab_spec_len_q(spec, b);
        const int64_t step = att_max(1, att_ceil_div(rows, ROWS_COUNTED));
        for (int64_t i = 0; i < rows; i += step)
            pairs += left_by_pattern(spec, b, i) * (double)att_min(step, rows - i);
    }
    return pairs;
}

/* Pairs of a row and a key that it sees, of all heads. */
static double pairs_of(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    double pairs = 0.0;
    if (has_pattern(spec))
        return pairs_by_pattern(spec) * (double)p->heads_q;
    for (int64_t b = 0; b < sequences(spec); b++) {
        const att_ref_sequence s = lab_spec_sequence(spec, b);
        pairs += lab_visible_pairs(p, &s);
    }
    return times(spec) * pairs * (double)p->heads_q;
}

static double bytes_of(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    double rows = 0.0, keys = 0.0;
    for (int64_t b = 0; b < sequences(spec); b++) {
        rows += times(spec) * (double)lab_spec_len_q(spec, b);
        keys += times(spec) *
                (double)att_max(lab_spec_len_k(spec, b) - lab_spec_start_k(spec, b), 0);
    }
    const double element = (double)att_dtype_size(p->dtype);
    return rows * (double)p->heads_q * (double)p->d_qk * element +
           keys * (double)p->heads_kv * (double)(p->d_qk + p->d_v) * element +
           rows * (double)p->heads_q * (double)p->d_v * (double)att_dtype_size(p->dtype_o);
}

void lab_attention_work(lab_work *work, const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    work->pairs = pairs_of(spec);
    work->flops = 2.0 * work->pairs * (double)(p->d_qk + p->d_v);
    work->bytes = bytes_of(spec);
}
