/* attention_finish.c: the derived fields of a spec: lengths, strides, totals, page counts. */
#include "lab/attention/attention_lab.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "lab/base/random.h"

/* ------------------------------------------------------------------ lengths */

static const int64_t OFFSET_DRAWN_MOST = INT32_MAX; /* what an int32 holds */

/* Streams for drawing lengths; the same for queries and keys that are packed together. */
enum { STREAM_Q, STREAM_K, STREAM_LENS_K, STREAM_STARTS_K, STREAM_Q_OFFSETS, STREAM_K_OFFSETS };

static int64_t draw_length(const lab_spec *spec, int64_t b, int64_t longest, uint64_t stream) {
    if (b == 0)
        return longest; /* so that the problem's seq is the longest sequence, not just a
                         * bound */
    if (b == 1 && spec->problem.batch > 2)
        return 0;
    lab_random random;
    lab_random_seed(&random, spec->lens_seed, stream << 48 | (uint64_t)b);
    return lab_random_below(&random, longest + 1);
}

static int64_t length(const lab_spec *spec, const lab_lens *lens, int64_t b, int64_t longest,
                      uint64_t stream) {
    switch (lens->mode) {
    case LAB_LENS_DRAWN:
        return draw_length(spec, b, longest, stream);
    case LAB_LENS_LISTED:
        return lens->list[b];
    default:
        return longest;
    }
}

int64_t lab_spec_len_q(const lab_spec *spec, int64_t b) {
    return length(spec, &spec->cu_q, b, spec->problem.seq_q, STREAM_Q);
}

int64_t lab_spec_room_k(const lab_spec *spec, int64_t b) {
    const bool self_attention =
        spec->cu_q.mode == LAB_LENS_DRAWN && spec->problem.seq_q == spec->problem.seq_k;
    return length(spec, &spec->cu_k, b, spec->problem.seq_k,
                  self_attention ? STREAM_Q : STREAM_K);
}

int64_t lab_spec_len_k(const lab_spec *spec, int64_t b) {
    return att_min(lab_spec_room_k(spec, b),
                   length(spec, &spec->lens_k, b, spec->problem.seq_k, STREAM_LENS_K));
}

/* A number per batch entry; 0 if there is none. If drawn, 0 to `most`. */
static int64_t number(const lab_spec *spec, const lab_lens *list, int64_t b, int64_t most,
                      uint64_t stream) {
    if (list->mode == LAB_LENS_LISTED)
        return list->list[b];
    if (list->mode == LAB_LENS_NONE)
        return 0;
    lab_random random;
    lab_random_seed(&random, spec->lens_seed, stream << 48 | (uint64_t)b);
    return lab_random_below(&random, most + 1);
}

/* If drawn, some starts lie past the length. */
int64_t lab_spec_start_k(const lab_spec *spec, int64_t b) {
    return number(spec, &spec->starts_k, b, spec->problem.seq_k, STREAM_STARTS_K);
}

/* If drawn, some diagonals lie past all keys, and others before all. */
int64_t lab_spec_q_offset(const lab_spec *spec, int64_t b) {
    return number(spec, &spec->q_offsets, b,
                  att_min(spec->problem.seq_k + 8, OFFSET_DRAWN_MOST), STREAM_Q_OFFSETS);
}

int64_t lab_spec_k_offset(const lab_spec *spec, int64_t b) {
    return number(spec, &spec->k_offsets, b,
                  att_min(spec->problem.seq_q + 8, OFFSET_DRAWN_MOST), STREAM_K_OFFSETS);
}

att_ref_sequence lab_spec_sequence(const lab_spec *spec, int64_t b) {
    const att_problem *p = &spec->problem;
    return (att_ref_sequence){
        .len_q = lab_spec_len_q(spec, b),
        .len_k = lab_spec_len_k(spec, b),
        .start_k = lab_spec_start_k(spec, b),
        .offset = p->q_offset + lab_spec_q_offset(spec, b) -
                  (p->k_offset + lab_spec_k_offset(spec, b)),
    };
}

bool lab_spec_varies(const lab_spec *spec) {
    return spec->problem.features & (ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K | ATT_LENS_K |
                                     ATT_STARTS_K | ATT_Q_OFFSETS | ATT_K_OFFSETS);
}

bool lab_spec_is_empty(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    const bool rows =
        p->features & ATT_CU_SEQLENS_Q ? p->total_q > 0 : p->batch > 0 && p->seq_q > 0;
    const bool keys =
        p->features & ATT_CU_SEQLENS_K ? p->total_k > 0 : p->batch > 0 && p->seq_k > 0;
    return !rows && !keys;
}

/* `what`: the plural noun for the entries of the list. */
static bool check_list(const char *name, const char *what, const lab_lens *lens, int64_t batch,
                       int64_t longest, lab_message *why) {
    if (lens->mode != LAB_LENS_LISTED)
        return true;
    if (lens->count != batch)
        return lab_fail(why, "%s lists %d %s but batch=%lld", name, lens->count, what,
                        (long long)batch);
    for (int b = 0; b < lens->count; b++)
        if (lens->list[b] > longest)
            return lab_fail(why, "%s: %.*s %d is beyond the longest, %lld", name,
                            (int)strlen(what) - 1, what, (int)lens->list[b],
                            (long long)longest);
    return true;
}

static bool add_length(int64_t *total, int64_t length, const char *name, lab_message *why) {
    if (length > INT32_MAX - *total)
        return lab_fail(why, "%s: the lengths add up to more than 2^31-1, which offsets hold",
                        name);
    *total += length;
    return true;
}

static bool draws_lengths(const lab_spec *spec) {
    return spec->cu_q.mode == LAB_LENS_DRAWN || spec->cu_k.mode == LAB_LENS_DRAWN ||
           spec->lens_k.mode == LAB_LENS_DRAWN || spec->starts_k.mode == LAB_LENS_DRAWN ||
           spec->q_offsets.mode == LAB_LENS_DRAWN || spec->k_offsets.mode == LAB_LENS_DRAWN;
}

static bool finish_lengths(lab_spec *spec, lab_message *why) {
    att_problem *p = &spec->problem;
    if (draws_lengths(spec) && p->batch > LAB_DRAWN_MAX)
        return lab_fail(why, "batch=%lld: lengths are drawn for at most %d sequences",
                        (long long)p->batch, LAB_DRAWN_MAX);
    if (!check_list("cuq", "lengths", &spec->cu_q, p->batch, p->seq_q, why) ||
        !check_list("cuk", "lengths", &spec->cu_k, p->batch, p->seq_k, why) ||
        !check_list("lensk", "lengths", &spec->lens_k, p->batch, p->seq_k, why) ||
        !check_list("startsk", "starts", &spec->starts_k, p->batch, p->seq_k, why) ||
        !check_list("qoffsets", "offsets", &spec->q_offsets, p->batch, INT32_MAX, why) ||
        !check_list("koffsets", "offsets", &spec->k_offsets, p->batch, INT32_MAX, why))
        return false;
    p->total_q = p->total_k = 0;
    if (p->features & (ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K))
        for (int64_t b = 0; b < p->batch; b++) {
            if (p->features & ATT_CU_SEQLENS_Q &&
                !add_length(&p->total_q, lab_spec_len_q(spec, b), "cuq", why))
                return false;
            if (p->features & ATT_CU_SEQLENS_K &&
                !add_length(&p->total_k, lab_spec_room_k(spec, b), "cuk", why))
                return false;
        }
    return true;
}

static bool lengths_differ(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    if (p->seq_q != p->seq_k)
        return true;
    if (!lab_spec_varies(spec))
        return false;
    for (int64_t b = 0; b < p->batch; b++)
        if (lab_spec_len_q(spec, b) != lab_spec_len_k(spec, b))
            return true;
    return false;
}

/* ------------------------------------------------------------------ strides */

typedef struct extents {
    int64_t batch, head, row;
} extents;

/* Contiguous, with `width` elements per row; false on overflow. */
static bool lay_out(att_strides *strides, lab_layout layout, extents n, int64_t width) {
    strides->col = 1;
    if (layout == LAB_BHSD) {
        strides->row = width;
        return att_mul(n.row, strides->row, &strides->head) &&
               att_mul(n.head, strides->head, &strides->batch);
    }
    strides->head = width;
    return att_mul(n.head, strides->head, &strides->row) &&
           att_mul(n.row, strides->row, &strides->batch);
}

static const int64_t absurd = INT64_C(1) << 61;

static void make_absurd(att_strides *strides, extents n, bool has_batch) {
    if (n.batch == 1 || !has_batch)
        strides->batch = absurd;
    if (n.head == 1)
        strides->head = absurd;
    if (n.row == 1)
        strides->row = absurd;
}

static bool pack(lab_spec *spec, extents q, extents kv) {
    att_problem *p = &spec->problem;
    const int64_t qk = p->d_qk + spec->pad, v = p->d_v + spec->pad;
    int64_t q_width, k_width, v_width;
    if (!att_mul(p->heads_q, qk, &q_width) || !att_mul(p->heads_kv, qk, &k_width) ||
        !att_mul(p->heads_kv, v, &v_width))
        return false;
    int64_t row, batch;
    if (!att_add(q_width, k_width, &row) || !att_add(row, v_width, &row) ||
        !att_mul(q.row, row, &batch))
        return false;
    p->q = p->k = (att_strides){batch, qk, row, 1};
    p->v = (att_strides){batch, v, row, 1};
    spec->k_offset = q_width;
    spec->v_offset = q_width + k_width;
    return q.row == kv.row && lay_out(&p->o, LAB_BSHD, q, v);
}

static bool lay_out_bias(lab_spec *spec) {
    att_problem *p = &spec->problem;
    const bool *one = spec->bias_broadcast;
    const int64_t heads = one[1] ? 1 : p->heads_q, rows = one[2] ? 1 : p->seq_q;
    int64_t row;
    p->bias.col = spec->bias_col;
    if (!att_mul(one[3] ? 1 : p->seq_k, p->bias.col, &row) ||
        !att_add(row, spec->pad, &p->bias.row) || !att_mul(rows, p->bias.row, &p->bias.head) ||
        !att_mul(heads, p->bias.head, &p->bias.batch))
        return false;
    if (one[0])
        p->bias.batch = 0;
    if (one[1])
        p->bias.head = 0;
    if (one[2])
        p->bias.row = 0;
    if (one[3])
        p->bias.col = 0;
    return true;
}

static bool finish_strides(lab_spec *spec) {
    att_problem *p = &spec->problem;
    const bool packed_q = p->features & ATT_CU_SEQLENS_Q,
               packed_k = p->features & ATT_CU_SEQLENS_K;
    const bool paged = p->features & ATT_PAGED;
    const extents q = {packed_q ? 1 : p->batch, p->heads_q, packed_q ? p->total_q : p->seq_q};
    extents kv = {packed_k ? 1 : p->batch, p->heads_kv, packed_k ? p->total_k : p->seq_k};
    if (paged)
        kv = (extents){p->num_pages, p->heads_kv, p->page_size};

    const int64_t qk_width = p->d_qk + spec->pad, v_width = p->d_v + spec->pad;
    if (spec->layout == LAB_PACKED) {
        if (!pack(spec, q, kv))
            return false;
    } else if (!lay_out(&p->q, spec->layout, q, qk_width) ||
               !lay_out(&p->k, spec->layout, kv, qk_width) ||
               !lay_out(&p->v, spec->layout, kv, v_width) ||
               !lay_out(&p->o, spec->layout, q, v_width)) {
        return false;
    }
    p->lse = (att_strides){.row = 1, .head = q.row + spec->pad, .col = 1};
    if (!att_mul(q.head, p->lse.head, &p->lse.batch))
        return false;
    p->bias = (att_strides){.batch = 0};
    if (p->features & ATT_BIAS && !lay_out_bias(spec))
        return false;
    p->grad_o = p->o; /* gradients are laid out like their tensors, but not broadcast */
    p->grad_q = p->q;
    p->grad_k = p->k;
    p->grad_v = p->v;
    p->grad_bias = p->bias;

    if (spec->broadcast_batch)
        p->k.batch = p->v.batch = 0;
    if (spec->broadcast_heads)
        p->k.head = p->v.head = 0;
    if (spec->absurd_strides) {
        make_absurd(&p->q, q, !packed_q);
        make_absurd(&p->k, kv, paged || !packed_k);
        make_absurd(&p->v, kv, paged || !packed_k);
        make_absurd(&p->o, q, !packed_q);
        make_absurd(&p->lse, q, !packed_q);
        make_absurd(&p->grad_o, q, !packed_q);
        make_absurd(&p->grad_q, q, !packed_q);
        make_absurd(&p->grad_k, kv, paged || !packed_k);
        make_absurd(&p->grad_v, kv, paged || !packed_k);
    }
    return true;
}

/* The alignment of the bases of q, k, v and o: an aligned address plus `offset` elements, K and
 * V of a packed buffer at their offsets in it. */
static int64_t alignment_of(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    const uint64_t element = att_dtype_size(p->dtype), element_o = att_dtype_size(p->dtype_o);
    uint64_t bits = 16 | (uint64_t)spec->offset * element | (uint64_t)spec->offset * element_o;
    if (spec->layout == LAB_PACKED)
        bits |= ((uint64_t)spec->k_offset | (uint64_t)spec->v_offset) * element;
    return (int64_t)(bits & (~bits + 1));
}

/* -------------------------------------------------------------------- finish */

static bool finish_pages(lab_spec *spec, lab_message *why) {
    att_problem *p = &spec->problem;
    if (!(p->features & ATT_PAGED)) {
        p->page_size = p->num_pages = p->page_table_stride = 0;
        return true;
    }
    if (spec->broadcast_batch || spec->layout == LAB_PACKED)
        return lab_fail(why, "paged goes with neither layout=packed nor bcast=b");
    /* All sequences share the same first page; one more page is unused. */
    const int64_t pages = att_ceil_div(p->seq_k, p->page_size);
    int64_t own;
    if (!att_mul(p->batch, att_max(pages - 1, 0), &own) || own > INT32_MAX - 2)
        return lab_fail(why, "paged=%lld needs more pages than an id can name",
                        (long long)p->page_size);
    p->num_pages = own + 2;
    p->page_table_stride = pages + (spec->pad ? 1 : 0);
    return true;
}

static bool check_sizes(const lab_spec *spec, lab_message *why) {
    const att_problem *p = &spec->problem;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {
        {"batch", p->batch},       {"heads_q", p->heads_q},
        {"heads_kv", p->heads_kv}, {"seq_q", p->seq_q},
        {"seq_k", p->seq_k},       {"d_qk", p->d_qk},
        {"d_v", p->d_v},           {"pad", spec->pad},
        {"offset", spec->offset},  {"biascol", spec->bias_col},
        {"paged", p->page_size},   {"qoffset", p->q_offset},
        {"koffset", p->k_offset},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value > LAB_SIZE_MAX)
            return lab_fail(why, "%s=%lld is above 2^40", sizes[i].name,
                            (long long)sizes[i].value);
    return true;
}

bool lab_attention_finish(lab_spec *spec, lab_message *why) {
    att_problem *p = &spec->problem;
    p->heads_kv = spec->heads_kv < 0 ? p->heads_q : spec->heads_kv;
    p->seq_k = spec->seq_k < 0 ? p->seq_q : spec->seq_k;
    p->d_v = spec->d_v < 0 ? p->d_qk : spec->d_v;
    p->dtype_o = spec->dtype_o ? spec->dtype_o : p->dtype;
    p->dtype_grad = spec->dtype_grad ? spec->dtype_grad : p->dtype;
    if (!spec->scale_given)
        p->scale = p->d_qk > 0 ? (float)(1.0 / sqrt((double)p->d_qk)) : 1.0f;
    p->alibi_stride_batch = spec->alibi_per_batch ? p->heads_q : 0;

    if (!check_sizes(spec, why))
        return false;
    if (p->heads_q < 1 || p->heads_kv < 1)
        return lab_fail(why, "heads_q=%lld, heads_kv=%lld: there must be at least one of each",
                        (long long)p->heads_q, (long long)p->heads_kv);
    if (p->heads_q % p->heads_kv != 0)
        return lab_fail(why, "heads_q=%lld is not a multiple of heads_kv=%lld",
                        (long long)p->heads_q, (long long)p->heads_kv);
    if (!finish_lengths(spec, why) || !finish_pages(spec, why))
        return false;
    if (spec->causal_plain && lengths_differ(spec))
        return lab_fail(why,
                        "causal needs its alignment named where queries and keys differ in "
                        "number: causal=top-left or causal=bottom-right");
    if (spec->layout == LAB_PACKED && lengths_differ(spec))
        return lab_fail(why, "layout=packed needs as many keys as queries");
    if (spec->layout == LAB_PACKED && (spec->broadcast_batch || spec->broadcast_heads))
        return lab_fail(why, "layout=packed does not go with bcast");
    if (!finish_strides(spec))
        return lab_fail(why, "a tensor's size in elements does not fit 63 bits");
    p->alignment = alignment_of(spec);
    return true;
}
