/* test_threads.c: many threads on one plan, several contexts at once; checked by TSan. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/verify/verify.h"
#include "tests/support/check.h"
#include "tests/support/engines.h"
#include "tests/support/fixture.h"
#include "tests/support/parsed.h"
#include "tests/support/problems.h"

enum { CALLERS = 8, RUNS = 3 };

/* One thread's data: the same inputs, its own outputs and workspace. */
typedef struct caller {
    const att_plan *plan;
    fixture f;
    const void *o, *lse; /* what the serial run gave */
    int wrong;
    att_status status;
} caller;

static void *run_often(void *arg) {
    caller *c = arg;
    for (int i = 0; i < RUNS && c->status == ATT_OK; i++) {
        fixture_poison(&c->f);
        c->status = att_plan_run(c->plan, &c->f.args,
                                 c->f.workspace.bytes ? c->f.workspace.data : NULL, NULL);
        c->wrong += !fixture_same(&c->f, BUF_O, c->o) || !fixture_same(&c->f, BUF_LSE, c->lse);
    }
    return NULL;
}

static void share_plan(att_context *ctx, const att_problem *problem) {
    static caller callers[CALLERS];
    att_plan *plan;
    assert_ok(att_plan_create(&plan, ctx, problem));
    fixture serial;
    fixture_open(&serial, problem, 11);
    fixture_run_ok(&serial, ctx);
    assert_true(serial.launch.block[0] > 1); /* otherwise nothing is shared */
    void *o = fixture_copy(&serial, BUF_O);
    void *lse = fixture_copy(&serial, BUF_LSE);
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.plan = plan, .o = o, .lse = lse};
        fixture_open(&callers[i].f, problem, 11);
        callers[i].f.workspace = guard_open(att_plan_workspace(plan), ATT_WORKSPACE_ALIGN);
    }
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, &callers[i]), 0);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(callers[i].status, ATT_OK);
        assert_int_equal(callers[i].wrong, 0);
        fixture_assert_intact(&callers[i].f);
        fixture_close(&callers[i].f);
    }
    free(o);
    free(lse);
    fixture_close(&serial);
    att_plan_destroy(plan);
}

/* Large enough to be worth the threads: tiles of many rows, and one row whose keys are
 * split. */
static void test_plan__8_threads__bit_equal_to_serial(void **state) {
    (void)state;
    static const att_dtype dtypes[] = {ATT_F32, ATT_BF16};
    engines e;
    engines_open(&e, 3);
    for (int i = 0; i < e.count; i++)
        for (size_t t = 0; t < 2; t++) {
            att_problem p;
            att_problem_init(&p, 1, 4, 2, 128, 96, 48, 40, dtypes[t]);
            p.features = ATT_LSE;
            share_plan(e.ctx[i], &p);
            att_problem_init(&p, 1, 4, 2, 1, 8192, 64, 64, dtypes[t]);
            p.features = ATT_LSE;
            share_plan(e.ctx[i], &p);
        }
    engines_close(&e);
}

static void test_contexts__two_at_once__each_right(void **state) {
    (void)state;
    static caller callers[2];
    att_context *ctx[2] = {context_open(ATT_ISA_AUTO, 2), context_open(ATT_ISA_PORTABLE, 3)};
    att_plan *plan[2];
    void *o[2], *lse[2];
    pthread_t threads[2];
    att_problem p;
    att_problem_init(&p, 2, 4, 4, 90, 90, 32, 32, ATT_F32);
    p.features = ATT_LSE;
    for (int i = 0; i < 2; i++) {
        assert_ok(att_plan_create(&plan[i], ctx[i], &p));
        callers[i] = (caller){.plan = plan[i]};
        fixture_open(&callers[i].f, &p, 3);
        fixture_run_ok(&callers[i].f, ctx[i]);
        callers[i].o = o[i] = fixture_copy(&callers[i].f, BUF_O);
        callers[i].lse = lse[i] = fixture_copy(&callers[i].f, BUF_LSE);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, &callers[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(callers[i].status, ATT_OK);
        assert_int_equal(callers[i].wrong, 0);
        fixture_close(&callers[i].f);
        att_plan_destroy(plan[i]);
        att_context_destroy(ctx[i]);
        free(o[i]);
        free(lse[i]);
    }
}

/* Contexts and plans come and go on every thread while another context works. */
static void *open_and_close(void *arg) {
    att_context *shared = arg;
    const att_problem p = problem_with(ATT_LSE, ATT_F32);
    intptr_t failures = 0;
    for (int i = 0; i < 10; i++) {
        const att_context_options options = {
            .size = sizeof options, .device = ATT_DEVICE_CPU, .threads = 2};
        att_context *own;
        att_plan *a, *b;
        failures += att_context_create(&own, &options) != ATT_OK;
        failures += att_plan_create(&a, own, &p) != ATT_OK;
        failures += att_plan_create(&b, shared, &p) != ATT_OK;
        att_context_destroy(own);
        att_plan_destroy(a);
        att_plan_destroy(b);
    }
    return (void *)failures;
}

static void test_context__opened_and_closed_by_8_threads__all_succeed(void **state) {
    (void)state;
    att_context *shared = context_open(ATT_ISA_AUTO, 2);
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, shared), 0);
    for (int i = 0; i < CALLERS; i++) {
        void *failures;
        assert_int_equal(pthread_join(threads[i], &failures), 0);
        assert_null(failures);
    }
    att_context_destroy(shared);
}

/* Each thread makes its own mistake and must read that one back. */
typedef struct mistake {
    att_context *ctx;
    int64_t seq_q;
    bool ok;
} mistake;

static void *make_mistake(void *arg) {
    mistake *m = arg;
    att_problem p = problem_with(0, ATT_F32);
    char text[32];
    snprintf(text, sizeof text, "seq_q=%lld", (long long)m->seq_q);
    p.seq_q = m->seq_q;
    m->ok = true;
    for (int i = 0; i < 200; i++) {
        att_plan *plan;
        m->ok = m->ok && att_plan_create(&plan, m->ctx, &p) == ATT_E_ARG && plan == NULL &&
                strcmp(att_last_error()->field, "seq_q") == 0 &&
                strstr(att_last_error()->text, text) != NULL;
    }
    return NULL;
}

static void test_last_error__8_threads_failing__each_reads_its_own(void **state) {
    (void)state;
    att_context *ctx = context_open(ATT_ISA_AUTO, 1);
    mistake mistakes[CALLERS];
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        mistakes[i] = (mistake){.ctx = ctx, .seq_q = -100 - i};
        assert_int_equal(pthread_create(&threads[i], NULL, make_mistake, &mistakes[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(mistakes[i].ok);
    }
    att_context_destroy(ctx);
}

static void test_run__any_thread_count__within_the_bar(void **state) {
    (void)state;
    static const char *const specs[] = {"b1h4s1sk8192d64,f32,lse",
                                        "b1h4hkv2s3sk4100d64,bf16,lse",
                                        "b2h3s90sk120d64,fp16,causal=bottom-right,lse"};
    static const int32_t counts[] = {1, 2, 3, 8};
    for (size_t s = 0; s < 3; s++) {
        const lab_spec spec = parsed(specs[s]);
        for (size_t c = 0; c < 4; c++) {
            att_context *ctx = context_open(ATT_ISA_AUTO, counts[c]);
            const lab_verify_options options = {.seed = 1};
            lab_verify_result result;
            lab_verify_spec(&result, ctx, &spec, &options);
            if (result.outcome != LAB_PASS)
                fail_msg("%s with %d threads: %s", specs[s], counts[c], result.message);
            att_context_destroy(ctx);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan__8_threads__bit_equal_to_serial),
        cmocka_unit_test(test_contexts__two_at_once__each_right),
        cmocka_unit_test(test_context__opened_and_closed_by_8_threads__all_succeed),
        cmocka_unit_test(test_last_error__8_threads_failing__each_reads_its_own),
        cmocka_unit_test(test_run__any_thread_count__within_the_bar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
