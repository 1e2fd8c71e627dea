/* problem.c: problem helpers, and the checks that every problem passes before a kernel sees
 * it. */
#include "attention/problem.h"

#include <math.h>
#include <string.h>

#include "base/sized.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/field_checks.h"
#include "base/tensor_shape.h"

#define LL(x) ((long long)(x))

/* a * b * c, wrapping on overflow: these helpers do not check, att_plan_create() does. */
static int64_t times(int64_t a, int64_t b, int64_t c) {
    return (int64_t)((uint64_t)a * (uint64_t)b * (uint64_t)c);
}

static int64_t plus(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static att_strides bshd(int64_t seq, int64_t heads, int64_t d) {
    return (att_strides){
        .batch = times(seq, heads, d), .head = d, .row = times(heads, d, 1), .col = 1};
}

static att_strides bhsd(int64_t seq, int64_t heads, int64_t d) {
    return (att_strides){
        .batch = times(heads, seq, d), .head = times(seq, d, 1), .row = d, .col = 1};
}

static int64_t stored_rows_q(const att_problem *p) {
    return p->features & ATT_CU_SEQLENS_Q ? p->total_q : p->seq_q;
}

/* Rows of K and V between entries: per page, of all sequences, or per sequence. */
static int64_t stored_rows_k(const att_problem *p) {
    if (p->features & ATT_PAGED)
        return p->page_size;
    return p->features & ATT_CU_SEQLENS_K ? p->total_k : p->seq_k;
}

/* The tensors whose layout does not depend on the order of heads and rows. */
static void layout_others(att_problem *p) {
    p->lse = bhsd(stored_rows_q(p), p->heads_q, 1);
    if (p->features & ATT_PAGED && p->page_size > 0)
        p->page_table_stride = att_problem_pages(p);
}

/* Gradients have the layout of their tensors. A caller built before gradients existed has no
 * fields for them. */
static void layout_gradients(att_problem *p) {
    if (p->size < ATT_BACKWARD_PROBLEM_0_2)
        return;
    p->grad_o = p->o;
    p->grad_q = p->q;
    p->grad_k = p->k;
    p->grad_v = p->v;
}

void att_problem_layout_bshd(att_problem *p) {
    p->q = bshd(p->seq_q, p->heads_q, p->d_qk);
    p->k = bshd(stored_rows_k(p), p->heads_kv, p->d_qk);
    p->v = bshd(stored_rows_k(p), p->heads_kv, p->d_v);
    p->o = bshd(p->seq_q, p->heads_q, p->d_v);
    layout_others(p);
    layout_gradients(p);
}

void att_problem_layout_bhsd(att_problem *p) {
    p->q = bhsd(stored_rows_q(p), p->heads_q, p->d_qk);
    p->k = bhsd(stored_rows_k(p), p->heads_kv, p->d_qk);
    p->v = bhsd(stored_rows_k(p), p->heads_kv, p->d_v);
    p->o = bhsd(stored_rows_q(p), p->heads_q, p->d_v);
    layout_others(p);
    layout_gradients(p);
}

void att_problem_layout_packed(att_problem *p, int64_t *k_offset, int64_t *v_offset) {
    att_problem_layout_bshd(p);
    *k_offset = times(p->heads_q, p->d_qk, 1);
    *v_offset = plus(*k_offset, times(p->heads_kv, p->d_qk, 1));
    const int64_t row = plus(*v_offset, times(p->heads_kv, p->d_v, 1));
    p->q = (att_strides){times(p->seq_q, row, 1), p->d_qk, row, 1};
    p->k = (att_strides){times(p->seq_k, row, 1), p->d_qk, row, 1};
    p->v = (att_strides){times(p->seq_k, row, 1), p->d_v, row, 1};
    layout_gradients(p);
}

void att_problem_init_sized(att_problem *problem, size_t size, int64_t batch, int64_t heads_q,
                            int64_t heads_kv, int64_t seq_q, int64_t seq_k, int64_t d_qk,
                            int64_t d_v, att_dtype dtype) {
    att_problem p = {
        .size = size,
        .dtype = dtype,
        .dtype_o = dtype,
        .dtype_grad = dtype,
        .batch = batch,
        .heads_q = heads_q,
        .heads_kv = heads_kv,
        .seq_q = seq_q,
        .seq_k = seq_k,
        .d_qk = d_qk,
        .d_v = d_v,
        .scale = d_qk > 0 ? (float)(1.0 / sqrt((double)d_qk)) : 1.0f,
        .window_left = -1,
        .window_right = -1,
    };
    att_problem_layout_bshd(&p);
    memset(problem, 0, size);
    memcpy(problem, &p, size < sizeof p ? size : sizeof p);
}

/* Not the header's macro, but the symbol that programs built with 0.1 call. */
void(att_problem_init)(att_problem *p, int64_t batch, int64_t heads_q, int64_t heads_kv,
                       int64_t seq_q, int64_t seq_k, int64_t d_qk, int64_t d_v,
                       att_dtype dtype) {
    att_problem_init_sized(p, ATT_PROBLEM_0_1, batch, heads_q, heads_kv, seq_q, seq_k, d_qk,
                           d_v, dtype);
}

/* Sums and differences of positions do not overflow. */
static const int64_t OFFSET_MOST = INT64_C(1) << 60;

static att_status check_sizes(const att_problem *p) {
    const att_least sizes[] = {
        {"batch", p->batch, 0}, {"heads_q", p->heads_q, 1}, {"heads_kv", p->heads_kv, 1},
        {"seq_q", p->seq_q, 0}, {"seq_k", p->seq_k, 0},     {"d_qk", p->d_qk, 1},
        {"d_v", p->d_v, 1},
    };
    ATT_TRY(att_check_least(sizes, sizeof sizes / sizeof sizes[0]));
    ATT_REQUIRE(p->heads_q % p->heads_kv == 0, ATT_E_ARG, "heads_q",
                "heads_q=%lld is not a multiple of heads_kv=%lld", LL(p->heads_q),
                LL(p->heads_kv));
    return ATT_OK;
}

static att_status check_mask(const att_problem *p) {
    ATT_REQUIRE(p->causal >= ATT_CAUSAL_NONE && p->causal <= ATT_CAUSAL_BOTTOM_RIGHT, ATT_E_ARG,
                "causal", "causal=%d is not an att_causal", (int)p->causal);
    ATT_REQUIRE(p->align >= ATT_ALIGN_UNSET && p->align <= ATT_ALIGN_BOTTOM_RIGHT, ATT_E_ARG,
                "align", "align=%d is not an att_align", (int)p->align);
    ATT_REQUIRE(p->window_left >= -1, ATT_E_ARG, "window_left", "window_left=%lld is below -1",
                LL(p->window_left));
    ATT_REQUIRE(p->window_right >= -1, ATT_E_ARG, "window_right",
                "window_right=%lld is below -1", LL(p->window_right));
    const bool windowed = p->window_left >= 0 || p->window_right >= 0;
    if (p->causal == ATT_CAUSAL_NONE) {
        const bool lengths_vary =
            p->features & (ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K | ATT_LENS_K);
        const bool ambiguous = p->seq_q != p->seq_k || lengths_vary;
        ATT_REQUIRE(!(windowed || (p->features & ATT_ALIBI)) || !ambiguous ||
                        p->align != ATT_ALIGN_UNSET,
                    ATT_E_ARG, "align",
                    "align must be top-left or bottom-right for a %s where rows and keys %s: "
                    "seq_q=%lld, seq_k=%lld",
                    windowed ? "window" : "slope",
                    p->seq_q != p->seq_k ? "differ in number" : "may differ by sequence",
                    LL(p->seq_q), LL(p->seq_k));
    } else {
        const att_align own =
            p->causal == ATT_CAUSAL_TOP_LEFT ? ATT_ALIGN_TOP_LEFT : ATT_ALIGN_BOTTOM_RIGHT;
        ATT_REQUIRE(p->align == ATT_ALIGN_UNSET || p->align == own, ATT_E_ARG, "align",
                    "align contradicts causal");
    }
    return ATT_OK;
}

/* Positions of rows and keys leave no choice of a diagonal. */
static att_status check_offsets(const att_problem *p) {
    const struct {
        const char *name, *entries_name;
        int64_t value;
        uint32_t entries;
    } offsets[] = {{"q_offset", "q_offsets", p->q_offset, p->features & ATT_Q_OFFSETS},
                   {"k_offset", "k_offsets", p->k_offset, p->features & ATT_K_OFFSETS}};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        const char *name = offsets[i].value ? offsets[i].name : offsets[i].entries_name;
        ATT_REQUIRE(offsets[i].value >= 0 && offsets[i].value <= OFFSET_MOST, ATT_E_ARG,
                    offsets[i].name, "%s=%lld is not in 0 .. 2^60", offsets[i].name,
                    LL(offsets[i].value));
        ATT_REQUIRE(
            !(offsets[i].value || offsets[i].entries) || !att_problem_is_bottom_right(p),
            ATT_E_ARG, name,
            "%s gives the positions of rows and keys, which is the top-left alignment: "
            "%s says bottom-right",
            name, p->causal == ATT_CAUSAL_NONE ? "align" : "causal");
    }
    return ATT_OK;
}

static att_status check_values(const att_problem *p) {
    ATT_TRY(att_check_float(p->dtype, "dtype"));
    ATT_TRY(att_check_float(p->dtype_o, "dtype_o"));
    ATT_REQUIRE((p->features & ~(uint32_t)ATT_FEATURES_ALL) == 0, ATT_E_ARG, "features",
                "features=0x%x has unknown bits", p->features);
    ATT_REQUIRE(isfinite(p->scale), ATT_E_ARG, "scale", "scale=%g is not finite",
                (double)p->scale);
    ATT_REQUIRE(isfinite(p->softcap) && p->softcap >= 0.0f, ATT_E_ARG, "softcap",
                "softcap=%g is not a finite number of at least 0", (double)p->softcap);
    ATT_TRY(att_check_alignment(p->alignment, p->dtype, p->dtype_o));
    if (p->features & ATT_BIAS)
        ATT_REQUIRE(att_is_float(p->bias_dtype) || p->bias_dtype == ATT_BOOL8, ATT_E_ARG,
                    "bias_dtype", "bias_dtype=%d is none of f32, f16, bf16, bool8",
                    (int)p->bias_dtype);
    return ATT_OK;
}

static att_status check_lengths(const att_problem *p) {
    if (p->features & ATT_CU_SEQLENS_Q)
        ATT_REQUIRE(p->total_q >= 0, ATT_E_ARG, "total_q", "total_q=%lld is below 0",
                    LL(p->total_q));
    if (p->features & ATT_CU_SEQLENS_K)
        ATT_REQUIRE(p->total_k >= 0, ATT_E_ARG, "total_k", "total_k=%lld is below 0",
                    LL(p->total_k));
    if (p->features & ATT_PAGED) {
        ATT_REQUIRE(p->page_size >= 1, ATT_E_ARG, "page_size", "page_size=%lld is below 1",
                    LL(p->page_size));
        ATT_REQUIRE(p->num_pages >= 0 && p->num_pages <= INT32_MAX, ATT_E_ARG, "num_pages",
                    "num_pages=%lld is not in 0 .. 2^31-1", LL(p->num_pages));
        ATT_REQUIRE(p->page_table_stride >= att_problem_pages(p) || p->batch <= 1, ATT_E_ARG,
                    "page_table_stride",
                    "page_table_stride=%lld is below the %lld pages of seq_k=%lld",
                    LL(p->page_table_stride), LL(att_problem_pages(p)), LL(p->seq_k));
    }
    return ATT_OK;
}

bool att_problem_is_bottom_right(const att_problem *p) {
    return p->causal == ATT_CAUSAL_BOTTOM_RIGHT ||
           (p->causal == ATT_CAUSAL_NONE && p->align == ATT_ALIGN_BOTTOM_RIGHT);
}

int64_t att_problem_pages(const att_problem *p) {
    return att_ceil_div(p->seq_k, p->page_size);
}

static att_status measure_tensors(const att_problem *p, att_extents *e) {
    const size_t in = att_dtype_size(p->dtype), out = att_dtype_size(p->dtype_o);
    const bool packed_q = p->features & ATT_CU_SEQLENS_Q,
               packed_k = p->features & ATT_CU_SEQLENS_K;
    const bool paged = p->features & ATT_PAGED;
    const int64_t batch_q = packed_q ? 1 : p->batch, rows_q = packed_q ? p->total_q : p->seq_q;
    const int64_t batch_k = paged ? p->num_pages : packed_k ? 1 : p->batch;
    const int64_t rows_k = paged ? p->page_size : packed_k ? p->total_k : p->seq_k;
    const att_shape q = att_shape_of("q", batch_q, p->heads_q, rows_q, p->d_qk, &p->q, in);
    const att_shape k = att_shape_of("k", batch_k, p->heads_kv, rows_k, p->d_qk, &p->k, in);
    const att_shape v = att_shape_of("v", batch_k, p->heads_kv, rows_k, p->d_v, &p->v, in);
    const att_shape o = att_shape_of("o", batch_q, p->heads_q, rows_q, p->d_v, &p->o, out);
    ATT_TRY(att_shape_measure(&q, &e->q));
    ATT_TRY(att_shape_measure(&k, &e->k));
    ATT_TRY(att_shape_measure(&v, &e->v));
    ATT_TRY(att_shape_measure(&o, &e->o));
    ATT_TRY(att_shape_contiguous(&q));
    ATT_TRY(att_shape_contiguous(&k));
    ATT_TRY(att_shape_contiguous(&v));
    ATT_TRY(att_shape_contiguous(&o));
    if (e->o)
        ATT_TRY(att_shape_disjoint(&o));
    if (p->features & ATT_LSE) {
        const att_shape lse =
            att_shape_of("lse", batch_q, p->heads_q, rows_q, 1, &p->lse, sizeof(float));
        ATT_TRY(att_shape_measure(&lse, &e->lse));
        if (e->lse)
            ATT_TRY(att_shape_disjoint(&lse));
    }
    return ATT_OK;
}

static att_status measure_extras(const att_problem *p, att_extents *e) {
    if (p->features & ATT_BIAS) {
        const att_shape bias = att_shape_of("bias", p->batch, p->heads_q, p->seq_q, p->seq_k,
                                            &p->bias, att_dtype_size(p->bias_dtype));
        ATT_TRY(att_shape_measure(&bias, &e->bias));
    }
    if (p->features & ATT_ALIBI) {
        ATT_REQUIRE(
            p->alibi_stride_batch >= 0 || p->batch <= 1, ATT_E_ARG, "alibi_stride_batch",
            "alibi_stride_batch=%lld: strides may not be negative", LL(p->alibi_stride_batch));
        const att_strides st = {p->alibi_stride_batch, 1, 0, 0};
        const att_shape alibi =
            att_shape_of("alibi", p->batch, p->heads_q, 1, 1, &st, sizeof(float));
        ATT_TRY(att_shape_measure(&alibi, &e->alibi));
    }
    if (p->features & ATT_PAGED) {
        const att_strides st = {p->page_table_stride, 1, 0, 0};
        const att_shape table = att_shape_of("page_table", p->batch, att_problem_pages(p), 1, 1,
                                             &st, sizeof(int32_t));
        ATT_TRY(att_shape_measure(&table, &e->page_table));
    }
    ATT_REQUIRE(att_mul(p->batch, sizeof(int32_t), &e->lens_k) &&
                    att_add(e->lens_k, sizeof(int32_t), &e->cu_seqlens) &&
                    att_mul(p->heads_q, sizeof(float), &e->sinks),
                ATT_E_OVERFLOW, "batch", "batch=%lld overflows", LL(p->batch));
    return ATT_OK;
}

/* Every product of sizes stays below this, so that rounding one up to a tile cannot
 * overflow. */
static const int64_t COUNT_MOST = INT64_MAX / 2;

/* batch x heads_q x rows x columns must fit: work and time are computed from it. A size of 0
 * counts as 1, so that every size is bounded even if another is 0. The error names the largest
 * size. */
static att_status check_product(const att_problem *p, const char *rows_name, int64_t rows) {
    const bool d_qk = p->d_qk >= p->d_v;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {
        {"batch", p->batch},
        {"heads_q", p->heads_q},
        {rows_name, rows},
        {d_qk ? "d_qk" : "d_v", d_qk ? p->d_qk : p->d_v},
    };
    size_t largest = 0;
    int64_t n = 1;
    bool fits = true;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        largest = sizes[i].value > sizes[largest].value ? i : largest;
        fits = fits && att_mul(n, att_max(sizes[i].value, 1), &n) && n <= COUNT_MOST;
    }
    ATT_REQUIRE(fits, ATT_E_OVERFLOW, sizes[largest].name,
                "%s=%lld is too large: batch x heads_q x %s x %s is past 2^62",
                sizes[largest].name, LL(sizes[largest].value), rows_name, sizes[3].name);
    return ATT_OK;
}

static att_status check_count(const att_problem *p) {
    ATT_TRY(check_product(p, "seq_q", p->seq_q));
    return check_product(p, "seq_k", p->seq_k);
}

att_status att_problem_check(const att_problem *p, att_extents *extents) {
    *extents = (att_extents){0};
    ATT_TRY(check_values(p));
    ATT_TRY(check_sizes(p));
    ATT_TRY(check_mask(p));
    ATT_TRY(check_offsets(p));
    ATT_TRY(check_lengths(p));
    ATT_TRY(check_count(p));
    ATT_TRY(measure_tensors(p, extents));
    return measure_extras(p, extents);
}
