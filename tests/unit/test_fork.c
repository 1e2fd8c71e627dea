/* test_fork.c: a child process computes with what it inherited, and the parent continues. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/engines.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"

enum { CHILD_OK = 0, CHILD_REFUSED = 2, CHILD_WRONG = 3 };

typedef struct shared {
    att_context *ctx;
    att_plan *plan;
    fixture f;
    void *o;
} shared;

static void shared_open(shared *s) {
    att_problem p;
    att_problem_init(&p, 2, 4, 2, 100, 100, 32, 32, ATT_BF16);
    s->ctx = context_open(ATT_ISA_AUTO, 3);
    fixture_open(&s->f, &p, 21);
    fixture_run_ok(&s->f, s->ctx);
    assert_true(s->f.launch.block[0] > 1); /* threads that a child will not have */
    s->o = fixture_copy(&s->f, BUF_O);
    assert_ok(att_plan_create(&s->plan, s->ctx, &p));
}

static void shared_close(shared *s) {
    att_plan_destroy(s->plan);
    att_context_destroy(s->ctx);
    fixture_close(&s->f);
    free(s->o);
}

static att_status run(shared *s) {
    return att_plan_run(s->plan, &s->f.args, s->f.workspace.bytes ? s->f.workspace.data : NULL,
                        NULL);
}

/* The exit status of a child that does `work`; it has a deadline: a deadlock must not hang the
 * tests. */
static int in_child(int (*work)(shared *), shared *s) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        _exit(work(s));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_inherited(shared *s) {
    fixture_poison(&s->f);
    if (run(s) != ATT_OK)
        return CHILD_REFUSED;
    return fixture_same(&s->f, BUF_O, s->o) ? CHILD_OK : CHILD_WRONG;
}

static int run_then_destroy_inherited(shared *s) {
    const int result = run_inherited(s);
    att_plan_destroy(s->plan);
    att_context_destroy(s->ctx);
    return result;
}

static int run_on_a_new_context(shared *s) {
    att_context *ctx;
    const att_context_options options = {
        .size = sizeof options, .device = ATT_DEVICE_CPU, .threads = 3};
    if (att_context_create(&ctx, &options) != ATT_OK)
        return CHILD_REFUSED;
    fixture_poison(&s->f);
    if (fixture_run(&s->f, ctx) != ATT_OK)
        return CHILD_REFUSED;
    att_context_destroy(ctx);
    return fixture_same(&s->f, BUF_O, s->o) ? CHILD_OK : CHILD_WRONG;
}

static int run_in_a_grandchild(shared *s) {
    const pid_t child = fork();
    if (child == 0)
        _exit(run_inherited(s));
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : CHILD_WRONG;
}

static void check_child(int (*work)(shared *)) {
    shared s;
    shared_open(&s);
    assert_int_equal(in_child(work, &s), CHILD_OK);
    fixture_poison(&s.f);
    assert_ok(run(&s));
    assert_true(fixture_same(&s.f, BUF_O, s.o));
    shared_close(&s);
}

static void test_fork__after_use__child_matches_and_parent_works(void **state) {
    (void)state;
    check_child(run_inherited);
}

static void test_fork__child_destroys_what_it_inherited__parent_works(void **state) {
    (void)state;
    check_child(run_then_destroy_inherited);
}

static void test_fork__child_opens_its_own_context__matches(void **state) {
    (void)state;
    check_child(run_on_a_new_context);
}

static void test_fork__grandchild__matches(void **state) {
    (void)state;
    check_child(run_in_a_grandchild);
}

typedef struct background {
    shared *s;
    fixture f; /* its own buffers */
    atomic_bool stop;
    atomic_int runs;
    att_status status;
} background;

static void *run_until_told(void *arg) {
    background *b = arg;
    while (!atomic_load(&b->stop) && b->status == ATT_OK) {
        b->status = att_plan_run(b->s->plan, &b->f.args,
                                 b->f.workspace.bytes ? b->f.workspace.data : NULL, NULL);
        atomic_fetch_add(&b->runs, 1);
    }
    return NULL;
}

/* The pool is busy with the other thread's tasks at the moment of the fork; nobody in the child
 * finishes them. */
static void test_fork__while_another_thread_runs__child_matches(void **state) {
    (void)state;
    static background b;
    shared s;
    shared_open(&s);
    b = (background){.s = &s};
    fixture_open(&b.f, &s.f.problem, 21);
    b.f.workspace = guard_open(att_plan_workspace(s.plan), ATT_WORKSPACE_ALIGN);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_until_told, &b), 0);
    while (atomic_load(&b.runs) == 0)
        usleep(100);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(in_child(run_inherited, &s), CHILD_OK);
        assert_int_equal(in_child(run_then_destroy_inherited, &s), CHILD_OK);
    }
    atomic_store(&b.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(b.status, ATT_OK);
    assert_true(fixture_same(&b.f, BUF_O, s.o));
    fixture_close(&b.f);
    shared_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fork__after_use__child_matches_and_parent_works),
        cmocka_unit_test(test_fork__child_destroys_what_it_inherited__parent_works),
        cmocka_unit_test(test_fork__child_opens_its_own_context__matches),
        cmocka_unit_test(test_fork__grandchild__matches),
        cmocka_unit_test(test_fork__while_another_thread_runs__child_matches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
