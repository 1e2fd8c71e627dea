/* test_verify_moe.c: the verifier on mixtures of experts: every output is judged, ids and
 * counts exactly. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "lab/moe/moe_lab.h"
#include "lab/tensors/output_rows.h"
#include "lab/tensors/tensors_turn.h"
#include "lab/verify/verify.h"
#include "tests/support/check.h"
#include "tests/support/engines.h"
#include "tests/support/parsed.h"

static lab_tensors *answered(const char *text, att_context *ctx) {
    const lab_spec spec = parsed(text);
    lab_tensors *t;
    lab_message why;
    att_plan *plan;
    if (!lab_tensors_create(&t, &spec, 5, &why))
        fail_msg("%s: %s", text, why.text);
    assert_ok(att_moe_plan_create(&plan, ctx, &spec.moe.problem));
    void *workspace = aligned_alloc(ATT_WORKSPACE_ALIGN, att_plan_workspace(plan));
    assert_ok(att_moe_run(plan, &t->any.moe, workspace, NULL));
    free(workspace);
    att_plan_destroy(plan);
    return t;
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

static void test_outputs__one_value_of_each_off__named(void **state) {
    const engines *e = *state;
    lab_tensors *t = answered("moe:t20e8k3h16i12,f32,ids,weights,counts,mask", e->ctx[0]);
    const att_moe_args *a = &t->any.moe;
    assert_int_equal(judged(t, 0).outcome, LAB_PASS);
    float *const numbers[] = {(float *)a->y + 7 * 16 + 3, a->weights + 5 * 3 + 1};
    static const char *const names[] = {"y[b=0 h=0 row=7 col=3]",
                                        "weights[b=0 h=0 row=5 col=1]"};
    for (int i = 0; i < 2; i++) {
        const float right = *numbers[i];
        *numbers[i] = right + 0.01f;
        assert_caught(t, 0, names[i]);
        *numbers[i] = NAN;
        assert_caught(t, 0, names[i]);
        *numbers[i] = right;
    }
    int32_t *const integers[] = {a->ids + 9 * 3 + 2, a->ids + 2 * 3, a->counts + 4,
                                 a->counts + 8};
    static const char *const integer_names[] = {
        "ids[b=0 h=0 row=9 col=2]", "ids[b=0 h=0 row=2 col=0]", /* masked: -1 */
        "counts[b=0 h=0 row=0 col=4]", "counts[b=0 h=0 row=0 col=8]"};
    for (int i = 0; i < 4; i++) {
        const int32_t right = *integers[i];
        *integers[i] = right + 1;
        assert_caught(t, 0, integer_names[i]);
        memset(integers[i], LAB_POISON_INTEGER, sizeof right);
        assert_caught(t, 0, integer_names[i]);
        *integers[i] = right;
    }
    assert_int_equal(judged(t, 0).outcome, LAB_PASS);
    lab_tensors_destroy(t);
}

/* Two experts of a token swapped, with their weights: y is the same, the ids are not. */
static void test_outputs__ids_in_another_order__caught(void **state) {
    const engines *e = *state;
    lab_tensors *t = answered("moe:t9e8k3h16i12,bf16,ids", e->ctx[0]);
    int32_t *ids = t->any.moe.ids + 4 * 3;
    const int32_t first = ids[0];
    ids[0] = ids[1];
    ids[1] = first;
    assert_caught(t, 0, "ids[b=0 h=0 row=4");
    lab_tensors_destroy(t);
}

/* Few rows are judged; unwritten rows are found anyway. */
static void test_outputs__sampled__unwritten_rows_are_found(void **state) {
    const engines *e = *state;
    lab_tensors *t = answered("moe:t300e8k3h16i12,f32,ids,weights,mask", e->ctx[0]);
    const att_moe_args *a = &t->any.moe;
    const lab_verify_result r = judged(t, 1000);
    assert_int_equal(r.outcome, LAB_PASS);
    assert_true(r.rows_checked >= LAB_FEWEST_ROWS && r.rows_checked < r.rows_total);
    for (int64_t row = 100; row < 103; row++) { /* 102 is masked */
        const lab_row here = {0, 0, row, LAB_MOE_SET_TOKENS};
        int32_t ids[3];
        memcpy(ids, a->ids + row * 3, sizeof ids);
        lab_tensors_poison_row(t, here);
        assert_caught(t, 1000, "was not written");
        memcpy(a->ids + row * 3, ids, sizeof ids);
        assert_caught(t, 1000, "was not written");
        memset(a->ids + row * 3, LAB_POISON_INTEGER, sizeof ids);
        memset((float *)a->y + row * 16, 0, 16 * sizeof(float));
        memset(a->weights + row * 3, 0, 3 * sizeof(float));
        assert_caught(t, 1000, "ids[b=0 h=0 row=");
        lab_tensors_destroy(t);
        t = answered("moe:t300e8k3h16i12,f32,ids,weights,mask", e->ctx[0]);
        a = &t->any.moe;
    }
    lab_tensors_destroy(t);
}

/* Turned tokens: the others are unchanged, and turning twice restores everything. */
static void test_turn__tokens__change_their_answers_alone(void **state) {
    const engines *e = *state;
    lab_tensors *t = answered("moe:t50e8k2h16i12,bf16", e->ctx[0]);
    lab_row rows[LAB_TURNED];
    lab_message why;
    assert_true(lab_tensors_turnable(t));
    const size_t count = lab_tensors_turned_rows(t, 7, rows);
    assert_in_range(count, LAB_TURNED / 2, LAB_TURNED);
    for (size_t i = 1; i < count; i++)
        assert_true(rows[i].i > rows[i - 1].i);
    lab_tensors_turn(t, 7);
    assert_int_equal(judged(t, 0).outcome, LAB_FAIL);
    lab_tensors_turn(t, 7);
    assert_true(lab_tensors_check(t, &why));
    assert_int_equal(judged(t, 0).outcome, LAB_PASS);
    lab_tensors_destroy(t);
    static const char *const still[] = {"moe:t5e8k2h16i12,data=ties", "moe:t5e8k2h16i12,mask",
                                        "moe:t5e8k2h16i12,range=0:4", "moe:t0e8k2h16i12"};
    for (int i = 0; i < 4; i++) {
        t = answered(still[i], e->ctx[0]);
        assert_false(lab_tensors_turnable(t));
        lab_tensors_destroy(t);
    }
}

static void test_fill__loads__spread_as_they_say(void **state) {
    const engines *e = *state;
    static const struct {
        const char *line;
        int64_t least, most; /* tokens of the busiest expert */
        int64_t used;        /* experts that have any, at most */
    } cases[] = {{"moe:t400e8k2h1i1,counts", 100, 140, 8},
                 {"moe:t400e8k2h1i1,counts,load=one", 400, 400, 8},
                 {"moe:t400e8k2h1i1,counts,load=few", 400, 400, 2},
                 {"moe:t400e32k2h1i1,counts,load=zipf", 140, 330, 32},
                 {"moe:t400e32k2h1i1,counts,load=zipf,route=given", 140, 330, 32},
                 {"moe:t400e32k2h1i1,counts,load=one,route=sigmoid", 400, 400, 32}};
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        lab_tensors *t = answered(cases[n].line, e->ctx[0]);
        int64_t busiest = 0, used = 0, sum = 0;
        for (int64_t x = 0; x < t->spec.moe.problem.experts; x++) {
            const int64_t own = t->any.moe.counts[x];
            busiest = own > busiest ? own : busiest;
            used += own > 0;
            sum += own;
        }
        assert_int_equal(sum, 800);
        assert_in_range(busiest, (uintmax_t)cases[n].least, (uintmax_t)cases[n].most);
        assert_true(used <= cases[n].used);
        lab_tensors_destroy(t);
    }
}

/* Operations and bytes: exact for one token, approximately as drawn for many. */
static void test_work__operations_and_bytes(void **state) {
    const engines *e = *state;
    lab_work w;
    lab_spec spec = parsed("moe:t1e128k8h2048i768,bf16");
    lab_moe_work(&w, &spec);
    assert_near(w.flops, 6.0 * 8 * 2048 * 768, 1.0);
    assert_near(w.bytes, 8 * 3.0 * 2048 * 768 * 2 + 2 * 2048 * 2 + 128 * 4, 1.0);
    spec = parsed("moe:t1e128k8h2048i768,bf16,act=relu2");
    lab_moe_work(&w, &spec);
    assert_near(w.flops, 4.0 * 8 * 2048 * 768, 1.0);
    spec = parsed("moe:t100e8k2h64i32,f32,range=2:4");
    lab_moe_work(&w, &spec);
    assert_near(w.flops, 6.0 * 100 * 64 * 32, 1.0);
    lab_tensors *t = answered("moe:t12e64k4h1i1,counts", e->ctx[0]);
    int64_t used = 0;
    for (int64_t x = 0; x < 64; x++)
        used += t->any.moe.counts[x] > 0;
    lab_tensors_destroy(t);
    lab_work one, twelve;
    spec = parsed("moe:t1e64k4h512i512,bf16");
    lab_moe_work(&one, &spec);
    spec = parsed("moe:t12e64k4h512i512,bf16");
    lab_moe_work(&twelve, &spec);
    assert_near(twelve.bytes / one.bytes, (double)used / 4.0, 2.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs__one_value_of_each_off__named),
        cmocka_unit_test(test_outputs__ids_in_another_order__caught),
        cmocka_unit_test(test_outputs__sampled__unwritten_rows_are_found),
        cmocka_unit_test(test_turn__tokens__change_their_answers_alone),
        cmocka_unit_test(test_fill__loads__spread_as_they_say),
        cmocka_unit_test(test_work__operations_and_bytes),
    };
    return cmocka_run_group_tests(tests, engines_setup, engines_teardown);
}
