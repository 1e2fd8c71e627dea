/* test_bench.c: what is timed is what is verified, interleaved, and a cheating kernel is
 * caught.
 *
 * Calls of att_plan_run() go through __wrap_att_plan_run() below, which can simulate a bad
 * kernel and reads the clock through __wrap_lab_clock_ns(); calls of att_merge_run() go through
 * a wrapper that can simulate slow caches. Timed calls are recognised by their launch record,
 * which is inside a case. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "lab/base/clock.h"
#include "lab/measure/bench.h"

enum { CASES = 2, LOG_MAX = 4096 };

static lab_bench_case cases[CASES];
static lab_spec specs[CASES];
static att_context *ctx;

/* What the wrapper does to timed calls of case 0 after `honest_turns`: the first turn is its
 * warm-up, each further one a round. */
typedef enum trick {
    NO_TRICK,
    NO_OP,
    OTHER_BITS,
    REFUSE,
    SLOW, /* a clock that counts calls: other calls take a microsecond */
    WRONG_FROM_THE_START,
    WATCH,      /* computes, and records its arguments */
    SLOW_CLOCK, /* time seems to stand still */
    FAR_LINES   /* merge: computes, after a wait for every line of the inputs that changed */
} trick;
static trick current_trick;
static int honest_turns, turns;
static int call_log[LOG_MAX];      /* the case of every timed call, in order */
static const void *o_log[LOG_MAX]; /* and the address of its O */
static int call_count;
static uint64_t
    poisoned_q[LOG_MAX]; /* hashes of Q in timed calls of case 0 that found poison in O */
static size_t poisoned_count;
static const size_t watched_q_bytes = 4 * 96 * 64 * sizeof(float);

att_status __real_att_plan_run(const att_plan *plan, const att_args *args, void *workspace,
                               void *stream);
att_status __wrap_att_plan_run(const att_plan *plan, const att_args *args, void *workspace,
                               void *stream);

static int case_of(const att_args *args) {
    for (int i = 0; i < CASES; i++)
        if (args->launch == &cases[i].launch)
            return i;
    return -1;
}

/* What the clock says with SLOW: a machine under load must not change the number of calls. */
static uint64_t counted_ns;
enum { READING_NS = 20, CALL_NS = 1000, SLOW_CALL_NS = 200000 };

att_status __wrap_att_plan_run(const att_plan *plan, const att_args *args, void *workspace,
                               void *stream) {
    const int timed_case = case_of(args);
    turns += timed_case == 0 && (call_count == 0 || call_log[call_count - 1] != 0);
    if (timed_case >= 0 && call_count < LOG_MAX) {
        o_log[call_count] = args->o;
        call_log[call_count++] = timed_case;
    }
    if (timed_case == 0 && current_trick == WATCH && isnan(*(const float *)args->o) &&
        poisoned_count < LOG_MAX)
        poisoned_q[poisoned_count++] = lab_hash(1, args->q, watched_q_bytes);
    const bool cheats = timed_case == 0 && turns > honest_turns;
    if (cheats && current_trick == NO_OP)
        return ATT_OK;
    counted_ns += cheats && current_trick == SLOW ? SLOW_CALL_NS : CALL_NS;
    if (cheats && current_trick == REFUSE)
        return ATT_E_SYSTEM;
    const att_status status = __real_att_plan_run(plan, args, workspace, stream);
    if (current_trick == WRONG_FROM_THE_START)
        ((float *)args->o)[0] += 1.0f;
    if (cheats && current_trick == OTHER_BITS) /* still right */
        ((uint32_t *)args->o)[0] ^= 1u;
    return status;
}

/* Wait as long as a core does for the lines that another core has written, one after the
 * other: those in which a part differs from what the last call on it found. */
static void fetch_lines(const unsigned char *part, size_t bytes) {
    enum { LINE = 64, PARTS = 64, BYTES = 1 << 14, LINE_NS = 50 };
    static unsigned char found[PARTS][BYTES];
    static const unsigned char *address[PARTS];
    int n = 0;
    while (n < PARTS && address[n] && address[n] != part)
        n++;
    assert_true(n < PARTS && bytes <= BYTES);
    address[n] = part;
    uint64_t wait = 0;
    for (size_t i = 0; i < bytes; i += LINE)
        if (memcmp(found[n] + i, part + i, LINE) != 0) {
            memcpy(found[n] + i, part + i, LINE);
            wait += LINE_NS;
        }
    for (const uint64_t start = lab_clock_ns(); lab_clock_ns() - start < wait;)
        continue;
}

att_status __real_att_merge_run(const att_plan *plan, const att_merge_args *args,
                                void *workspace, void *stream);
att_status __wrap_att_merge_run(const att_plan *plan, const att_merge_args *args,
                                void *workspace, void *stream);

static const char *const far_merge = "merge:n4b8h8s1d64,f32";

att_status __wrap_att_merge_run(const att_plan *plan, const att_merge_args *args,
                                void *workspace, void *stream) {
    for (int n = 0; n < 4 && current_trick == FAR_LINES; n++)
        fetch_lines(args->part_o[n], 64 * 64 * sizeof(float));
    return __real_att_merge_run(plan, args, workspace, stream);
}

uint64_t __real_lab_clock_ns(void);
uint64_t __wrap_lab_clock_ns(void);

uint64_t __wrap_lab_clock_ns(void) {
    if (current_trick == SLOW)
        return counted_ns += READING_NS;
    const uint64_t now = __real_lab_clock_ns();
    return current_trick == SLOW_CLOCK ? now / 1000000000 : now;
}

static int open_context(void **state) {
    (void)state;
    const att_context_options options = {.size = sizeof options, .threads = 1};
    return att_context_create(&ctx, &options) == ATT_OK ? 0 : -1;
}

static int close_context(void **state) {
    (void)state;
    att_context_destroy(ctx);
    return 0;
}

static const lab_bench_options few = {.seed = 3, .min_samples = 6, .max_samples = 9};

static void bench_with(const lab_bench_options *options, const char *first, const char *second,
                       trick with, int after_turns) {
    const char *lines[CASES] = {first, second};
    memset(cases, 0, sizeof cases);
    for (int i = 0; i < CASES; i++) {
        assert_true(lab_spec_parse(&specs[i], lines[i], NULL));
        cases[i].spec = &specs[i];
        cases[i].subject = lab_subject_attest(ctx);
    }
    current_trick = with;
    honest_turns = after_turns;
    turns = 0;
    call_count = 0;
    poisoned_count = 0;
    assert_true(lab_bench_run(cases, CASES, options, stderr, NULL));
    current_trick = NO_TRICK;
}

static void bench(const char *first, const char *second, trick with, int after_turns) {
    bench_with(&few, first, second, with, after_turns);
}

static void test_bench__sound_kernel__is_timed(void **state) {
    (void)state;
    bench("b1h2s40d16,f32", "b1h1s33d8,bf16,causal", NO_TRICK, 0);
    for (int i = 0; i < CASES; i++) {
        const lab_bench_case *c = &cases[i];
        assert_int_equal(c->verify.outcome, LAB_PASS);
        assert_true(c->timed);
        assert_in_range(c->sample_count, few.min_samples, few.max_samples);
        assert_string_equal(c->launch.kernel, c->verify.kernel);
        assert_true(c->calls_per_sample >= 1);
        for (size_t s = 0; s < c->sample_count; s++)
            assert_true(c->samples_ns[s] > 0.0);
        assert_true(c->ns.min <= c->ns.low && c->ns.low <= c->ns.median);
        assert_true(c->ns.median <= c->ns.high && c->ns.high <= c->ns.max);
    }
    assert_true(cases[0].flops == 4.0 * 2 * 40 * 40 * 16);
    assert_true(cases[1].flops == 4.0 * 33 * 34 / 2 * 8);
    assert_true(fabs(lab_bench_gflops(&cases[0], 2.0 * cases[0].flops) - 0.5) < 1e-12);
    lab_bench_free(cases, CASES);
}

/* The case changes once within every round, and between two rounds if their orders are
 * equal. */
static void test_bench__two_cases__take_turns_in_random_order(void **state) {
    (void)state;
    bench("b1h2s40d16,f32", "b1h2s41d16,f32", NO_TRICK, 0);
    assert_true(call_count < LOG_MAX);
    size_t changes = 0;
    for (int i = 1; i < call_count; i++)
        changes += call_log[i] != call_log[i - 1];
    const size_t rounds = cases[0].sample_count;
    assert_int_equal(cases[1].sample_count, rounds);
    assert_true(changes > rounds + 1);     /* otherwise each would begin where the last one
                                            * ended, */
    assert_true(changes < 2 * rounds + 1); /* otherwise the order would always be the same */
    for (size_t i = 0; i < rounds; i++) {
        assert_int_equal(cases[0].round[i], i);
        assert_int_equal(cases[0].process[i], 0);
    }
    lab_bench_free(cases, CASES);
}

/* Whether calls of both cases had their O at the same address; slow calls do not use every
 * set. */
static bool places_are_shared(void) {
    for (int i = 0; i < call_count; i++)
        for (int j = 0; j < i; j++)
            if (call_log[i] != call_log[j] && o_log[i] == o_log[j])
                return true;
    return false;
}

static void test_bench__one_problem__has_one_place_in_memory(void **state) {
    (void)state;
    bench("b1h2s40d16,f32", "b1h2s40d16,f32", NO_TRICK, 0);
    assert_true(cases[0].timed && cases[1].timed);
    assert_int_equal(cases[1].input_sets, cases[0].input_sets);
    assert_true(places_are_shared());
    lab_bench_free(cases, CASES);
    bench("b1h2s40d16,f32", "b1h2s40d16,f32,causal", NO_TRICK, 0);
    assert_false(places_are_shared());
    lab_bench_free(cases, CASES);
}

/* A call of case 0 is longer than a sample needs to be; case 1 needs several calls. */
static void test_bench__one_problem__has_samples_of_as_many_calls(void **state) {
    (void)state;
    bench("b1h1s4d8,f32", "b1h1s4d8,f32", SLOW, 0);
    assert_true(cases[0].timed && cases[1].timed);
    assert_true(cases[1].calls_per_sample > 1);
    assert_int_equal(cases[0].calls_per_sample, cases[1].calls_per_sample);
    lab_bench_free(cases, CASES);
    bench("b1h1s4d8,f32", "b1h1s5d8,f32", SLOW, 0);
    assert_int_equal(cases[0].calls_per_sample, 1);
    assert_true(cases[1].calls_per_sample > 1);
    lab_bench_free(cases, CASES);
}

static void test_bench__wrong_answer__is_never_timed(void **state) {
    (void)state;
    bench("b1h2s40d16,f32", "b1h1s33d8,f32", WRONG_FROM_THE_START, 0);
    for (int i = 0; i < CASES; i++) {
        assert_int_equal(cases[i].verify.outcome, LAB_FAIL);
        assert_false(cases[i].timed);
        assert_int_equal(cases[i].sample_count, 0);
    }
    assert_int_equal(call_count, 0);
}

static void test_bench__refused__is_not_timed_and_the_rest_is(void **state) {
    (void)state;
    bench("b1h1s4d300,f32", "b1h1s33d8,f32", NO_TRICK, 0);
    assert_int_equal(cases[0].verify.outcome, LAB_REFUSED);
    assert_int_equal(cases[0].verify.status, ATT_E_UNSUPPORTED);
    assert_false(cases[0].timed);
    assert_true(cases[1].timed);
    lab_bench_free(cases, CASES);
}

/* Each cheat is honest while it is verified and dishonest when it is timed; beside an honest
 * case of another problem, and of the same problem, whose answers are where its own should
 * be. */
static void expect_caught(trick with, int after_turns, const char *complaint) {
    static const char *const beside[] = {"b1h1s33d8,f32", "b1h2s40d16,f32"};
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
        bench("b1h2s40d16,f32", beside[i], with, after_turns);
        assert_int_equal(cases[0].verify.outcome, LAB_FAIL);
        assert_false(cases[0].timed);
        if (!strstr(cases[0].verify.message, complaint))
            fail_msg("\"%s\" does not say \"%s\"", cases[0].verify.message, complaint);
        assert_true(cases[1].timed);
        lab_bench_free(cases, CASES);
    }
}

static void test_bench__no_op_when_timed__is_caught(void **state) {
    (void)state;
    expect_caught(NO_OP, 0, "o[");
}

static void test_bench__answer_that_changes__is_caught(void **state) {
    (void)state;
    /* Honest in the first rounds, and then wrong by a single bit: only the comparison can
     * tell. */
    expect_caught(OTHER_BITS, 3, "differ");
}

static void test_bench__run_that_fails__is_caught(void **state) {
    (void)state;
    expect_caught(REFUSE, 0, "");
}

static bool came_before(size_t n) {
    size_t i = 0;
    while (i < n && poisoned_q[i] != poisoned_q[n])
        i++;
    return i < n;
}

/* Calls longer than a sample needs to be, one per sample: judged or not, its inputs are new and
 * O is poisoned. */
static void test_bench__any_sample__could_be_a_judged_one(void **state) {
    (void)state;
    const lab_bench_options many = {.seed = 3, .min_samples = 30, .max_samples = 30};
    bench_with(&many, "b1h4s96d64,f32", "b1h1s33d8,f32", WATCH, 0);
    assert_true(cases[0].timed && cases[0].calls_per_sample == 1);
    assert_int_equal(cases[0].sample_count, 30);
    assert_true(poisoned_count >= 30); /* including inputs that were never seen before */
    size_t again = 0;
    for (size_t i = 0; i < poisoned_count; i++)
        again += came_before(i);
    assert_int_equal(again, 1); /* the last round has the inputs of the first */
    lab_bench_free(cases, CASES);
}

static void test_bench__faster_than_the_processors__is_an_error(void **state) {
    (void)state;
    lab_bench_options cold = few;
    bench("b1h2s40d16,f32", "b1h1s33d8,f32", NO_TRICK, 0);
    for (int i = 0; i < CASES; i++)
        assert_true(cases[i].least_ns > 0.0 && cases[i].least_ns < cases[i].ns.min);
    assert_true(cases[0].floor_ns == 0.0);
    lab_bench_free(cases, CASES);
    cold.mode =
        LAB_COLD; /* samples of one call: the clock does not decide when there are enough */
    bench_with(&cold, "b1h2s40d16,f32", "b1h1s33d8,f32", SLOW_CLOCK, 0);
    for (int i = 0; i < CASES; i++) {
        assert_false(cases[i].timed);
        assert_non_null(strstr(cases[i].verify.message, "is below the floor of"));
    }
    lab_bench_free(cases, CASES);
}

/* Every row is a head of its own. In a sample of many calls only the first call on a set waits
 * for lines that the laboratory has changed; in a probe every call does. */
static void test_bench__changed_lines_are_far__honest_merge_is_timed(void **state) {
    (void)state;
    lab_bench_options many = few;
    many.calls_multiple = 32;
    bench_with(&many, far_merge, far_merge, FAR_LINES, 0);
    for (int i = 0; i < CASES; i++) {
        if (!cases[i].timed)
            fail_msg("%s", cases[i].verify.message);
        assert_true(cases[i].calls_per_sample > cases[i].input_sets);
    }
    lab_bench_free(cases, CASES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bench__sound_kernel__is_timed),
        cmocka_unit_test(test_bench__two_cases__take_turns_in_random_order),
        cmocka_unit_test(test_bench__one_problem__has_one_place_in_memory),
        cmocka_unit_test(test_bench__one_problem__has_samples_of_as_many_calls),
        cmocka_unit_test(test_bench__wrong_answer__is_never_timed),
        cmocka_unit_test(test_bench__refused__is_not_timed_and_the_rest_is),
        cmocka_unit_test(test_bench__no_op_when_timed__is_caught),
        cmocka_unit_test(test_bench__answer_that_changes__is_caught),
        cmocka_unit_test(test_bench__run_that_fails__is_caught),
        cmocka_unit_test(test_bench__any_sample__could_be_a_judged_one),
        cmocka_unit_test(test_bench__faster_than_the_processors__is_an_error),
        cmocka_unit_test(test_bench__changed_lines_are_far__honest_merge_is_timed),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
