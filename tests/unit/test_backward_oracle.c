/* test_backward_oracle.c: the gradients of the oracle compared with finite differences of the
 * forward oracle, and the plain reference with the oracle. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/ref/oracle.h"
#include "backward/ref/backward_oracle.h"
#include "backward/ref/backward_plain.h"
#include "base/dtype.h"
#include "lab/backward/backward_lab.h"
#include "lab/problem/spec.h"
#include "lab/tensors/output_rows.h"
#include "tests/support/check.h"

enum { KEYS_MAX = 64, D_MAX = 64 };

/* Half of the difference step; central, so that the error is of second order. */
static const float step = 0x1p-11f;

/* O and LSE are given in float32, from which the formula then starts. */
static const double tolerance = 2e-5;

static lab_tensors *make(const char *line) {
    lab_spec spec;
    lab_tensors *t = NULL;
    lab_message why;
    if (!lab_spec_parse(&spec, line, &why) || !lab_tensors_create(&t, &spec, 7, &why))
        fail_msg("%s: %s", line, why.text);
    return t;
}

/* -------------------------------------------------------------- finite differences */

/* The loss whose derivative by O is d_o. */
static double loss(const lab_tensors *t) {
    const att_problem *p = &t->spec.problem;
    const att_args *a = &t->args;
    double sum = 0.0, logits[KEYS_MAX], o[D_MAX], lse;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < att_ref_len_q(p, a, b); i++) {
                const int64_t at = att_backward_ref_index_d_o(p, a, b, h, i);
                att_ref_row(p, a, b, h, i, logits, o, &lse);
                for (int64_t c = 0; c < p->d_v; c++)
                    sum += o[c] * (double)att_load(a->d_o, p->dtype_o, at + c);
            }
    return sum;
}

/* d loss / d x, for a float32 input. Elements that nothing reads hold NaN: any number may
 * replace them. */
static double derivative(const lab_tensors *t, const void *input, int64_t at) {
    float *x = (float *)(uintptr_t)input + at;
    const float was = *x, middle = isnan(was) ? 0.5f : was;
    *x = middle + step;
    const double above = (double)*x, loss_above = loss(t);
    *x = middle - step;
    const double below = (double)*x, loss_below = loss(t);
    *x = was;
    return (loss_above - loss_below) / (above - below);
}

static void compare(const char *line, const char *name, int64_t b, int64_t h, int64_t i,
                    int64_t c, double got, double want) {
    if (!(fabs(got - want) <= tolerance * (1.0 + fabs(want))))
        fail_msg("%s: %s[%d %d %d %d] is %.9g, by differences %.9g", line, name, (int)b, (int)h,
                 (int)i, (int)c, got, want);
}

static void check_queries(const char *line, const lab_tensors *t) {
    const att_problem *p = &t->spec.problem;
    const att_args *a = &t->args;
    double d_q[D_MAX], size[D_MAX];
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < att_ref_len_q(p, a, b); i++) {
                att_backward_ref_query(p, a, b, h, i, d_q, size);
                for (int64_t c = 0; c < p->d_qk; c++)
                    compare(line, "d_q", b, h, i, c, d_q[c],
                            derivative(t, a->q, att_ref_index_q(p, a, b, h, i) + c));
            }
}

static void check_keys(const char *line, const lab_tensors *t) {
    const att_problem *p = &t->spec.problem;
    const att_args *a = &t->args;
    double d_k[D_MAX], size[D_MAX], d_v[D_MAX], size_v[D_MAX];
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_kv; h++)
            for (int64_t j = 0; j < att_backward_ref_room_k(p, a, b); j++) {
                att_backward_ref_key(p, a, b, h, j, d_k, size, d_v, size_v);
                for (int64_t c = 0; c < p->d_qk; c++)
                    compare(line, "d_k", b, h, j, c, d_k[c],
                            derivative(t, a->k, att_ref_index_k(p, a, b, h, j) + c));
                for (int64_t c = 0; c < p->d_v; c++)
                    compare(line, "d_v", b, h, j, c, d_v[c],
                            derivative(t, a->v, att_ref_index_v(p, a, b, h, j) + c));
            }
}

static int64_t own_indices(bool broadcast, int64_t size) {
    return broadcast ? 1 : size;
}

static void check_bias(const char *line, const lab_tensors *t) {
    const att_problem *p = &t->spec.problem;
    const bool *one = t->spec.bias_broadcast;
    for (int64_t b = 0; b < own_indices(one[0], p->batch); b++)
        for (int64_t h = 0; h < own_indices(one[1], p->heads_q); h++)
            for (int64_t i = 0; i < own_indices(one[2], p->seq_q); i++)
                for (int64_t j = 0; j < own_indices(one[3], p->seq_k); j++) {
                    const int64_t at = b * p->bias.batch + h * p->bias.head + i * p->bias.row +
                                       j * p->bias.col;
                    if (isfinite(((const float *)t->args.bias)[at]))
                        compare(line, "d_bias", b, h, i, j,
                                att_backward_ref_bias(p, &t->args, b, h, i, j).value,
                                derivative(t, t->args.bias, at));
                }
}

static void check_per_head(const char *line, const lab_tensors *t) {
    const att_problem *p = &t->spec.problem;
    for (int64_t h = 0; h < p->heads_q && p->features & ATT_SINKS; h++)
        compare(line, "d_sinks", 0, h, 0, 0, att_backward_ref_sink(p, &t->args, h).value,
                derivative(t, t->args.sinks, h));
    const int64_t batch = p->alibi_stride_batch ? p->batch : 1;
    for (int64_t b = 0; b < batch && p->features & ATT_ALIBI; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            compare(line, "d_alibi", b, h, 0, 0,
                    att_backward_ref_slope(p, &t->args, b, h).value,
                    derivative(t, t->args.alibi, b * p->alibi_stride_batch + h));
}

/* Small, so that every element can be varied. */
static const char *const problems[] = {
    "backward:b2h2s5d4,f32",
    "backward:b1h4hkv2s5sk7d4,f32",
    "backward:b1h6hkv1s4d3,f32,causal",
    "backward:b1h2s5sk8d5dv3,f32",
    "backward:b1h2s4d3dv7,f32,layout=packed",
    "backward:b1h2s4sk7d4,f32,causal=top-left",
    "backward:b1h2s4sk7d4,f32,causal=bottom-right",
    "backward:b1h2s7sk4d4,f32,causal=bottom-right",
    "backward:b1h2s9d4,f32,window=2:1,align=top-left",
    "backward:b1h2s6sk9d4,f32,window=0:3,align=bottom-right",
    "backward:b1h2s9d4,f32,causal,window=3:0",
    "backward:b1h2s6d4,f32,scale=-0.7",
    "backward:b1h2s6d4,f32,scale=0",
    "backward:b1h2s6d4,f32,softcap=1.5",
    "backward:b1h2s6d4,f32,softcap=0.3,scale=2,causal",
    "backward:b2h3s6d4,f32,alibi,causal,dalibi",
    "backward:b2h2s6sk8d4,f32,alibi=b,align=bottom-right,dalibi",
    "backward:b2h4hkv2s6d4,f32,sinks,dsinks",
    "backward:b2h2s6sk3d4,f32,causal=bottom-right,sinks,dsinks",
    "backward:b3h2s6d4,f32,varlen,causal=bottom-right,alibi,sinks,dalibi,dsinks",
    "backward:b3h2s6sk8d4,f32,lens=4:0:6",
    "backward:b3h2s4sk8d4,f32,lensk=5:0:8",
    "backward:b3h2s6d4,f32,causal,startsk=0:2:6",
    "backward:b3h2s4sk8d4,f32,causal=top-left,alibi,dalibi,qoffset=9,koffset=5,qoffsets=0:3:1,"
    "koffsets=4:0:0",
    "backward:b2h2s5sk6d4,f32,window=3:1,align=top-left,qoffset=40,koffset=38",
    "backward:b3h2s4sk8d4,f32,lensk=6:3:8,startsk=2:3:1,causal=bottom-right",
    "backward:b3h2s4sk8d4,f32,cuq=4:0:2",
    "backward:b3h2s4sk8d4,f32,cuk=8:0:3,lensk=6:0:3",
    "backward:b2h2s5d4,f32,layout=bhsd,pad=3",
    "backward:b2h2s5d4,f32,bias=bool,biasfill=hide",
    "backward:b2h2s5d4,f32,bias=f32,biasfill=hide,dbias",
    "backward:b2h2s5d4,f32,bias=f32,biasfill=hide-rows,sinks,dbias,dsinks",
    "backward:b2h2s5d4,f32,bias=f32,biascol=2,pad=1,dbias",
    "backward:b3h2s5d4,f32,bias=f32,lens=3:0:5,dbias",
    "backward:b2h4hkv2s5sk6d4,f32,softcap=2,sinks,bias=f32:1hqk,dbias,dsinks",
    "backward:b2h4hkv2s5sk6d4,f32,softcap=2,alibi,bias=f32:1hqk,align=top-left,dbias,dalibi",
    "backward:b2h2s5sk6d4,f32,alibi,sinks,align=top-left,dsinks,dalibi",
};

static void check_differences(const char *line) {
    lab_tensors *t = make(line);
    check_queries(line, t);
    check_keys(line, t);
    if (t->spec.problem.gradients & ATT_D_BIAS)
        check_bias(line, t);
    check_per_head(line, t);
    lab_tensors_destroy(t);
}

static void test_oracle__every_feature__finite_differences(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++)
        check_differences(problems[i]);
}

static void test_oracle__every_broadcast_of_the_bias__finite_differences(void **state) {
    (void)state;
    for (int bits = 0; bits < 16; bits++) {
        char line[128];
        snprintf(line, sizeof line,
                 "backward:b2h4hkv2s4sk5d3,f32,causal=bottom-right,bias=f32:%c%c%c%c,dbias",
                 bits & 1 ? '1' : 'b', bits & 2 ? '1' : 'h', bits & 4 ? '1' : 'q',
                 bits & 8 ? '1' : 'k');
        check_differences(line);
    }
}

/* ----------------------------------------------------------------------- specials */

/* Every gradient of the problem, from the oracle. */
static void visit_all(const lab_tensors *t, void (*visit)(double value, void *context),
                      void *context) {
    const lab_operation *operation = t->spec.operation;
    const lab_outputs outputs = operation->outputs(&t->spec);
    lab_row_walk walk;
    double values[2 * D_MAX + KEYS_MAX], sizes[2 * D_MAX + KEYS_MAX];
    for (lab_walk_start(&walk, t); lab_walk_next(&walk);) {
        operation->oracle(&t->spec, &t->any, walk.row, NULL, values, sizes);
        for (int64_t c = 0; c < lab_outputs_width(&outputs, walk.row.set); c++)
            visit(values[c], context);
    }
}

static void check_finite(double value, void *context) {
    if (!isfinite(value))
        fail_msg("%s: a gradient is not finite", (const char *)context);
}

static void test_oracle__nan_where_nobody_looks__is_finite(void **state) {
    (void)state;
    static char *const lines[] = {
        "backward:b2h2s5sk8d4,f32,causal=top-left,data=nan-masked",
        "backward:b2h2s8sk5d4,bf16,causal=bottom-right,data=nan-masked",
        "backward:b3h2s8d4,fp16,lens=5:0:8,data=nan-masked",
        "backward:b3h2s4sk8d4,f32,lensk=5:0:8,startsk=1:0:3,data=nan-masked",
        "backward:b2h2s5sk8d4,f32,bias=f32,biasfill=hide,data=nan-masked,dbias",
        "backward:b2h2s8sk5d4,f32,causal=bottom-right,alibi,data=nan-masked,dalibi",
        "backward:b2h2s8sk5d4,f32,causal=bottom-right,sinks,data=nan-masked,dsinks",
        "backward:b1h2s6d4,f32,data=huge",
        "backward:b1h2s6d4,f32,data=overflow",
        "backward:b1h2s6d4,bf16,data=overflow,sinks,dsinks",
        "backward:b1h2s6d4,bf16,do=huge",
        "backward:b1h2s6d4,fp16,do=tiny",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        lab_tensors *t = make(lines[i]);
        visit_all(t, check_finite, lines[i]);
        lab_tensors_destroy(t);
    }
}

static void add_size(double value, void *context) {
    *(double *)context += fabs(value);
}

static void test_oracle__nothing_to_see__is_zero(void **state) {
    (void)state;
    static const char *const lines[] = {"backward:b2h2s0sk5d4,f32", "backward:b2h2s5sk0d4,f32",
                                        "backward:b2h2s5sk4d4,f32,lensk=0:0",
                                        "backward:b2h2s5d4,f32,startsk=5:5,sinks,dsinks"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        lab_tensors *t = make(lines[i]);
        double size = 0.0;
        visit_all(t, add_size, &size);
        assert_true(size == 0.0);
        lab_tensors_destroy(t);
    }
}

/* ---------------------------------------------------------------- the plain reference */

typedef struct distance {
    double plain, largest;
} distance;

/* max |plain - oracle| over all gradients, in one order. */
static distance plain_distance(const lab_tensors *t, int order) {
    const lab_operation *operation = t->spec.operation;
    const lab_outputs outputs = operation->outputs(&t->spec);
    lab_row_walk walk;
    double oracle[2 * D_MAX + KEYS_MAX], sizes[2 * D_MAX + KEYS_MAX];
    float plain[2 * D_MAX + KEYS_MAX];
    distance d = {0.0, 0.0};
    for (lab_walk_start(&walk, t); lab_walk_next(&walk);) {
        operation->oracle(&t->spec, &t->any, walk.row, NULL, oracle, sizes);
        operation->plain(&t->spec, &t->any, walk.row, order, NULL, plain);
        for (int64_t c = 0; c < lab_outputs_width(&outputs, walk.row.set); c++) {
            d.plain = fmax(d.plain, fabs((double)plain[c] - oracle[c]));
            d.largest = fmax(d.largest, fabs(oracle[c]));
        }
    }
    return d;
}

static void test_plain__float32__near_the_oracle_in_every_order(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        lab_tensors *t = make(problems[i]);
        for (int order = 0; order < ATT_PLAIN_ORDERS; order++) {
            const distance d = plain_distance(t, order);
            assert_true(d.plain <= 4e-6 * (1.0 + d.largest));
        }
        lab_tensors_destroy(t);
    }
}

/* 16-bit weights and derivatives are visible in the error, and it is no larger than
 * necessary. */
static void test_plain__16_bits__rounds_operands(void **state) {
    (void)state;
    static const struct {
        const char *line;
        double least, most;
    } cases[] = {{"backward:b1h2s24d16,bf16,causal,grad=f32", 0x1p-12, 0x1p-6},
                 {"backward:b1h2s24d16,fp16,causal,grad=f32", 0x1p-15, 0x1p-9}};
    for (size_t i = 0; i < 2; i++) {
        lab_tensors *t = make(cases[i].line);
        const distance d = plain_distance(t, 0);
        assert_true(d.plain > cases[i].least * d.largest &&
                    d.plain < cases[i].most * d.largest);
        lab_tensors_destroy(t);
    }
}

/* ------------------------------------------------------------------------- rounded O */

/* The same problem with O and d_o in float32, the former as exact as float32 allows. */
typedef struct unrounded {
    att_problem p;
    att_args args;
    float *o, *d_o;
} unrounded;

static unrounded unround(const lab_tensors *t) {
    const att_problem *p = &t->spec.problem;
    const int64_t values = p->batch * p->seq_q * p->heads_q * p->d_v;
    unrounded u = {.p = *p, .args = t->args};
    double logits[KEYS_MAX], row[D_MAX], lse;
    u.o = malloc((size_t)values * sizeof(float));
    u.d_o = malloc((size_t)values * sizeof(float));
    assert_true(u.o && u.d_o);
    u.p.dtype_o = ATT_F32;
    u.args.o = u.o;
    u.args.d_o = u.d_o;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < p->seq_q; i++) {
                const int64_t at = att_ref_index_o(p, &t->args, b, h, i);
                att_ref_row(p, &t->args, b, h, i, logits, row, &lse);
                for (int64_t c = 0; c < p->d_v; c++) {
                    u.o[at + c] = (float)row[c];
                    u.d_o[at + c] = att_load(t->args.d_o, p->dtype_o, at + c);
                }
            }
    return u;
}

/* The largest effect on delta of half an ulp in every element of O, in one row. */
static double delta_bound(const unrounded *u, att_dtype dtype_o, int64_t at) {
    const double half_ulp = dtype_o == ATT_BF16 ? 0x1p-8 : 0x1p-11;
    double bound = 0.0;
    for (int64_t c = 0; c < u->p.d_v; c++)
        bound += half_ulp * fabs((double)u->o[at + c] * (double)u->d_o[at + c]);
    return bound;
}

/* max_j |k[j][c]| */
static double largest_key(const lab_tensors *t, int64_t b, int64_t h, int64_t c) {
    const att_problem *p = &t->spec.problem;
    double most = 0.0;
    for (int64_t j = 0; j < p->seq_k; j++) {
        const int64_t at = att_ref_index_k(p, &t->args, b, h, j) + c;
        most = fmax(most, fabs((double)att_load(t->args.k, p->dtype, at)));
    }
    return most;
}

/* Over all rows of d_q: the largest change from rounding O, and the plain reference's error.
 * Each change is within the bound of docs/numerics-kernels.md: that of delta, times a mean of
 * the keys. */
static void compare_rounded(const char *line, double *rounded, double *plain) {
    lab_tensors *t = make(line);
    const att_problem *p = &t->spec.problem;
    unrounded u = unround(t);
    *rounded = *plain = 0.0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < p->seq_q; i++) {
                const double bound =
                    delta_bound(&u, p->dtype_o, att_ref_index_o(p, &t->args, b, h, i));
                double given[D_MAX], truth[D_MAX], size[D_MAX];
                float simple[D_MAX];
                att_backward_ref_query(p, &t->args, b, h, i, given, size);
                att_backward_ref_query(&u.p, &u.args, b, h, i, truth, size);
                att_backward_plain_query(p, &t->args, b, h, i, ATT_PLAIN_FORWARD, simple);
                for (int64_t c = 0; c < p->d_qk; c++) {
                    const double change = fabs(given[c] - truth[c]);
                    *rounded = fmax(*rounded, change);
                    *plain = fmax(*plain, fabs((double)simple[c] - given[c]));
                    assert_true(change <= (double)p->scale * bound * largest_key(t, b, h, c) *
                                              (1.0 + 1e-6));
                }
            }
    free(u.o);
    free(u.d_o);
    lab_tensors_destroy(t);
}

static void test_oracle__rounded_o__within_its_bound(void **state) {
    (void)state;
    static const struct {
        const char *line;
        bool spread; /* spread weights: then it is less than the cost of rounding operands and
                      * answer */
    } cases[] = {{"backward:b2h2s48d64,bf16", true},
                 {"backward:b2h2s48d64,bf16,causal", true},
                 {"backward:b2h2s48d64,fp16,causal", true},
                 {"backward:b2h2s48d64,bf16,causal,data=shift", false},
                 {"backward:b2h2s48d64,bf16,data=onehot", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double rounded, plain;
        compare_rounded(cases[i].line, &rounded, &plain);
        if (cases[i].spread && !(rounded <= plain))
            fail_msg("%s: rounding O changes d_q by %.3g, the plain error is %.3g",
                     cases[i].line, rounded, plain);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle__every_feature__finite_differences),
        cmocka_unit_test(test_oracle__every_broadcast_of_the_bias__finite_differences),
        cmocka_unit_test(test_oracle__nan_where_nobody_looks__is_finite),
        cmocka_unit_test(test_oracle__nothing_to_see__is_zero),
        cmocka_unit_test(test_plain__float32__near_the_oracle_in_every_order),
        cmocka_unit_test(test_plain__16_bits__rounds_operands),
        cmocka_unit_test(test_oracle__rounded_o__within_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
