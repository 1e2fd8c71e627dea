/* test_verify_gradients.c: the verifier on an operation with several outputs: each is judged,
 * sampled, poisoned and turned. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/ref/oracle.h"
#include "base/dtype.h"
#include "lab/backward/backward_lab.h"
#include "lab/tensors/output_rows.h"
#include "lab/tensors/tensors_turn.h"
#include "lab/tensors/verify_rows.h"
#include "lab/verify/verify.h"
#include "tests/support/check.h"
#include "tests/support/parsed.h"

enum { VALUES_MAX = 600 };

static const char every_gradient[] = "backward:b2h4hkv2s13sk17d16dv24,f32,causal=bottom-right,"
                                     "alibi,sinks,bias=f32:1hqk,biascol=2,"
                                     "pad=3,dbias,dsinks,dalibi";

static lab_tensors *made(const char *text) {
    const lab_spec spec = parsed(text);
    lab_tensors *t;
    lab_message why;
    if (!lab_tensors_create(&t, &spec, 5, &why))
        fail_msg("%s: %s", text, why.text);
    return t;
}

/* Leave the answers of the plain reference in the outputs, as an honest kernel would. */
static void answer(lab_tensors *t) {
    const lab_operation *operation = t->spec.operation;
    lab_row_walk walk;
    float values[VALUES_MAX];
    for (lab_walk_start(&walk, t); lab_walk_next(&walk);) {
        operation->plain(&t->spec, &t->any, walk.row, 0, NULL, values);
        const float *value = values;
        for (int i = 0; i < walk.outputs.count; i++) {
            const lab_output *o = &walk.outputs.list[i];
            if (o->set != walk.row.set)
                continue;
            void *at = o->absent ? NULL : operation->answer(&t->spec, &t->any, i, walk.row);
            for (int64_t c = 0; at && c < o->d; c++)
                att_store(at, o->dtype, c * o->step, value[c]);
            value += o->d;
        }
    }
}

static lab_verify_result judged(const lab_tensors *t, int64_t max_work) {
    lab_verify_result r = {.outcome = LAB_PASS};
    const lab_verify_options options = {.seed = 3, .max_work = max_work};
    lab_verify_outputs(&r, t, &options);
    return r;
}

static void assert_caught(const lab_tensors *t, int64_t max_work, const char *word) {
    const lab_verify_result r = judged(t, max_work);
    assert_int_equal(r.outcome, LAB_FAIL);
    if (!strstr(r.message, word))
        fail_msg("'%s' does not hold '%s'", r.message, word);
}

static void test_outputs__honest_gradients__pass(void **state) {
    (void)state;
    static const char *const lines[] = {
        every_gradient,
        "backward:b2h2s9d16,bf16,causal",
        "backward:b3h2s20d16,fp16,varlen,layout=packed,pad=2,grad=f32",
        "backward:b3h2s9sk20d16,f32,lensk=5:0:20,bias=bool:b11k,biasfill=hide",
        "backward:b2h2s9sk0d16,f32,sinks,dsinks",
        "backward:b0h2s9d16,f32,sinks,alibi,dsinks,dalibi",
        "backward:b2h2s12sk9d16,f32,causal=bottom-right,data=nan-masked",
        "backward:b1h2s9d16,bf16,data=overflow"};
    for (size_t n = 0; n < sizeof lines / sizeof lines[0]; n++) {
        lab_tensors *t = made(lines[n]);
        lab_message why;
        answer(t);
        const lab_verify_result r = judged(t, 0);
        if (r.outcome != LAB_PASS)
            fail_msg("%s: %s", lines[n], r.message);
        assert_int_equal(r.rows_checked, r.rows_total);
        assert_int_equal(r.outputs, 6);
        assert_true(lab_tensors_check(t, &why));
        lab_tensors_destroy(t);
    }
}

/* The address of a value of the i-th output, in the last row of its set. */
static float *last_value(const lab_tensors *t, int output) {
    lab_row_walk walk;
    float *at = NULL;
    for (lab_walk_start(&walk, t); lab_walk_next(&walk);)
        if (walk.row.set == walk.outputs.list[output].set)
            at = t->spec.operation->answer(&t->spec, &t->any, output, walk.row);
    assert_non_null(at);
    return at;
}

static void test_outputs__one_value_of_each_off__named(void **state) {
    (void)state;
    lab_tensors *t = made(every_gradient);
    const lab_outputs outputs = t->spec.operation->outputs(&t->spec);
    answer(t);
    for (int i = 0; i < outputs.count; i++) {
        float *at = last_value(t, i);
        const float right = *at;
        char name[32];
        snprintf(name, sizeof name, "%s[b=", outputs.list[i].name);
        *at = right + 0.1f + 0.01f * fabsf(right);
        assert_caught(t, 0, name);
        *at = NAN;
        assert_caught(t, 0, name);
        *at = right;
    }
    assert_int_equal(judged(t, 0).outcome, LAB_PASS);
    lab_tensors_destroy(t);
}

/* Few rows are judged; unwritten rows are found anyway, and rows that are not finite are
 * judged. */
static void test_outputs__sampled__unwritten_rows_are_found(void **state) {
    (void)state;
    lab_tensors *t = made("backward:b2h4hkv2s80d16,f32,causal");
    const lab_outputs outputs = t->spec.operation->outputs(&t->spec);
    answer(t);
    const lab_verify_result r = judged(t, 1000);
    assert_int_equal(r.outcome, LAB_PASS);
    assert_true(r.rows_checked >= 2 * LAB_FEWEST_ROWS && r.rows_checked < r.rows_total);
    for (int i = 0; i < 3; i++) {
        const lab_row row = {1, i == 0 ? 3 : 1, 41, outputs.list[i].set};
        float *at = t->spec.operation->answer(&t->spec, &t->any, i, row);
        const size_t bytes = (size_t)outputs.list[i].d * sizeof *at;
        float kept[64];
        memcpy(kept, at, bytes);
        memset(at, LAB_POISON, bytes);
        assert_caught(t, 1000, outputs.list[i].name);
        memcpy(at, kept, bytes);
        at[3] = NAN;
        assert_caught(t, 1000, "nan");
        at[3] = kept[3];
    }
    lab_tensors_destroy(t);
}

/* Between the columns of d_bias, and after a row of d_k. */
static void test_tensors__padding_written__caught(void **state) {
    (void)state;
    lab_tensors *t = made(every_gradient);
    const att_problem *p = &t->spec.problem;
    lab_message why;
    answer(t);
    assert_true(lab_tensors_check(t, &why));
    float *places[] = {(float *)t->args.d_bias + 1, (float *)t->args.d_k + p->d_qk};
    for (size_t i = 0; i < 2; i++) {
        const float was = *places[i];
        memset(places[i], 0, sizeof was);
        assert_false(lab_tensors_check(t, &why));
        assert_non_null(strstr(why.text, "padding was written"));
        memset(places[i], LAB_POISON, sizeof was);
    }
    assert_true(lab_tensors_check(t, &why));
    lab_tensors_destroy(t);
}

/* After turning, no earlier gradient is right, neither of a row nor of a key; after turning
 * twice, nothing has changed. */
static void test_turn__once__rows_and_keys_are_wrong(void **state) {
    (void)state;
    static const char *const lines[] = {"backward:b2h4hkv2s17sk23d16,f32",
                                        "backward:b3h2s12d16,bf16,varlen,causal"};
    for (size_t n = 0; n < 2; n++) {
        lab_tensors *t = made(lines[n]);
        lab_message why;
        answer(t);
        for (uint64_t seed = 1; seed <= 4; seed++) {
            lab_row rows[LAB_TURNED];
            lab_tensors_turn(t, seed);
            const size_t count = lab_tensors_turned_rows(t, seed, rows);
            bool seen[2] = {false, false};
            for (size_t i = 0; i < count; i++) {
                const lab_verify_options one = {.rows = &rows[i], .row_count = 1};
                lab_verify_result r = {.outcome = LAB_PASS};
                lab_verify_outputs(&r, t, &one);
                assert_true(rows[i].set == LAB_SET_QUERIES || rows[i].set == LAB_SET_KEYS);
                if (r.outcome == LAB_FAIL)
                    seen[rows[i].set == LAB_SET_KEYS] = true;
            }
            assert_true(seen[0] && seen[1]);
            lab_tensors_turn(t, seed);
            assert_true(lab_tensors_check(t, &why));
        }
        assert_int_equal(judged(t, 0).outcome, LAB_PASS);
        lab_tensors_mark(t, 1);
        assert_int_equal(judged(t, 0).outcome, LAB_FAIL);
        lab_tensors_destroy(t);
    }
}

/* O and LSE from the library agree with the oracle, for a problem that is too large for the
 * oracle. */
static void test_tensors__large__forward_by_the_library(void **state) {
    (void)state;
    lab_tensors *t = made("backward:b1h2s1100d32,f32,causal");
    const att_problem *p = &t->spec.problem;
    static double logits[1100];
    double o[32], lse;
    for (int64_t i = 0; i < p->seq_q; i += 137) {
        att_ref_row(p, &t->args, 0, 1, i, logits, o, &lse);
        const int64_t at = att_ref_index_o(p, &t->args, 0, 1, i);
        assert_near((double)((float *)t->args.o)[at + 5], o[5], 1e-5);
        assert_near((double)t->args.lse[att_ref_index_lse(p, &t->args, 0, 1, i)], lse, 1e-5);
    }
    lab_tensors_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs__honest_gradients__pass),
        cmocka_unit_test(test_outputs__one_value_of_each_off__named),
        cmocka_unit_test(test_outputs__sampled__unwritten_rows_are_found),
        cmocka_unit_test(test_tensors__padding_written__caught),
        cmocka_unit_test(test_turn__once__rows_and_keys_are_wrong),
        cmocka_unit_test(test_tensors__large__forward_by_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
