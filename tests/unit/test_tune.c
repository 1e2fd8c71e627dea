/* test_tune.c: ablation and tuning on a fake GPU: its answers are the host's, its times follow
 * from the flags of the code (tests/fake_cuda/fake_kernel.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab/base/json.h"
#include "lab/tune/ablate.h"
#include "lab/tune/tune.h"
#include "core/user_rows.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"

static char folder[] = "/tmp/attest_tune_XXXXXX";
static att_context *gpu;
static lab_spec spec;
static lab_message why;

static const char *in_folder(const char *name) {
    static char path[2][96];
    static int next;
    next ^= 1;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static int set_up(void **state) {
    (void)state;
    setenv("FAKE_CUDA_COMPUTES", "1", 1);
    setenv("ATTEST_ROWS", "", 1);
    setenv("ATTEST_ALLOW_UNATTESTED", "1",
           1);                   /* the fake GPU is of an architecture without evidence */
    use_fake_cuda()->cc[0] = 80; /* a GPU whose kernels are those of fwd_sm80 */
    use_fake_nvrtc();
    if (!mkdtemp(folder))
        return -1;
    setenv("XDG_CACHE_HOME", folder, 1);
    const att_context_options options = {.size = sizeof options, .device = ATT_DEVICE_CUDA};
    assert_ok(att_context_create(&gpu, &options));
    return lab_spec_parse(&spec, "b1h1s17d64", &why) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    att_context_destroy(gpu);
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static lab_tune_options quick_options(size_t trials, const char *state) {
    lab_tune_options o = {.bench = lab_bench_defaults(),
                          .population = 8,
                          .budget_seconds = 120.0,
                          .max_trials = trials,
                          .state = in_folder(state)};
    o.bench.min_samples = 6;
    o.bench.seconds = 0.0;
    o.bench.warmup_seconds = 0.0;
    return o;
}

static void test_tune__better_constants__a_row_that_serves(void **state) {
    (void)state;
    lab_tuning t;
    const lab_tune_options o = quick_options(120, "state");
    if (!lab_tune(&t, gpu, &spec, &o, NULL, NULL, &why))
        fail_msg("%s", why.text);
    assert_true(t.trial_count >= 8);
    assert_int_equal(t.wrong, 0);
    assert_true(t.has_winner && t.judged);
    assert_int_equal(t.verdict.kind, LAB_FASTER);
    assert_true(lab_tuning_best(&t)->cost < 0.99);
    for (size_t i = 0; i < t.trial_count; i++)
        assert_true(t.trials[i].outcome == LAB_PASS && isfinite(t.trials[i].cost));

    /* Twice into one file: one row, and the existing contents stay. */
    const char *file = in_folder("my.rows");
    if (!lab_tune_keep(&t, file, &why) || !lab_tune_keep(&t, file, &why))
        fail_msg("%s", why.text);
    const att_context_options options = {
        .size = sizeof options, .device = ATT_DEVICE_CUDA, .rows_file = file};
    att_context *ctx;
    att_plan *plan;
    assert_ok(att_context_create(&ctx, &options));
    assert_int_equal(att_context_kernel_count(ctx), att_kernel_count() + 1);
    assert_ok(att_plan_create(&plan, ctx, &spec.problem));
    assert_string_equal(att_plan_kernel(plan), t.winner_id);
    att_plan_destroy(plan);
    lab_spec other;
    assert_true(lab_spec_parse(&other, "b1h1s18d64", &why));
    assert_ok(att_plan_create(&plan, ctx, &other.problem));
    assert_string_equal(att_plan_kernel(plan), t.base.id);
    att_plan_destroy(plan);
    att_context_destroy(ctx);

    json_t *object = lab_tuning_object(&t);
    assert_string_equal(json_string_value(json_object_get(object, "verdict")), "FASTER");
    assert_int_equal(json_array_size(json_object_get(object, "trials")), t.trial_count);
    assert_non_null(
        strstr(json_string_value(json_object_get(object, "row")), "verdict  = FASTER"));
    json_decref(object);
    lab_tuning_free(&t);
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static char *read_text(const char *path) {
    static char text[65536];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void test_keep__a_file_with_rows__others_stay(void **state) {
    (void)state;
    lab_tuning t = {.winner_id = "user_a", .judged = true};
    assert_true(lab_base_find(&t.base, gpu, &spec, &why));
    t.winner = t.base.shipped;
    const char *path = in_folder("kept.rows");
    write_text(path, "attest-rows 1\n# mine\n\n[row]\nid = user_b\ntile = m64n64s2w4\n"
                     "[row]\nid\t=  user_a\ndate = old\n\n[row]\nid = user_ab\n");
    if (!lab_tune_keep(&t, path, &why))
        fail_msg("%s", why.text);
    const char *text = read_text(path);
    assert_non_null(strstr(text, "# mine"));
    assert_non_null(strstr(text, "id = user_b\n"));
    assert_non_null(strstr(text, "id = user_ab\n"));
    assert_null(strstr(text, "date = old"));
    const char *row = strstr(text, "id       = user_a\n");
    assert_non_null(row);
    assert_null(strstr(row + 1, "id       = user_a\n"));
    /* A file that is not a rows file is left alone. */
    write_text(path, "hello\n");
    assert_false(lab_tune_keep(&t, path, &why));
    assert_non_null(strstr(why.text, "is not a rows file"));
    assert_string_equal(read_text(path), "hello\n");
    assert_false(lab_tune_keep(&t, "/nonexistent/my.rows", &why));
    assert_false(lab_tune_keep(&t, folder, &why));
}

static void test_tune__resumed__goes_on_from_its_record(void **state) {
    (void)state;
    lab_tuning first, second;
    lab_tune_options o = quick_options(11, "resume.state");
    if (!lab_tune(&first, gpu, &spec, &o, NULL, NULL, &why))
        fail_msg("%s", why.text);
    assert_true(first.trial_count == 11 && first.resumed == 0);
    o.resume = true;
    o.max_trials = 18;
    if (!lab_tune(&second, gpu, &spec, &o, NULL, NULL, &why))
        fail_msg("%s", why.text);
    assert_int_equal(second.resumed, first.trial_count);
    assert_int_equal(second.trial_count, 18);
    for (size_t i = 0; i < first.trial_count; i++) {
        assert_memory_equal(&first.trials[i].variant, &second.trials[i].variant,
                            sizeof(lab_variant));
        assert_near(second.trials[i].cost, first.trials[i].cost, 1e-12);
    }
    lab_tuning_free(&first);
    lab_tuning_free(&second);
    /* Without --resume it starts over, and a missing record is not an error. */
    o.resume = false;
    o.max_trials = 2;
    assert_true(lab_tune(&first, gpu, &spec, &o, NULL, NULL, &why));
    assert_int_equal(first.resumed, 0);
    lab_tuning_free(&first);
    o.resume = true;
    o.state = in_folder("absent.state");
    assert_true(lab_tune(&first, gpu, &spec, &o, NULL, NULL, &why));
    assert_int_equal(first.resumed, 0);
    lab_tuning_free(&first);
}

static void refuses_state(const char *text, uint64_t seed, const char *word) {
    lab_tuning t;
    lab_tune_options o = quick_options(4, "bad.state");
    o.resume = true;
    o.bench.seed = seed;
    write_text(o.state, text);
    assert_false(lab_tune(&t, gpu, &spec, &o, NULL, NULL, &why));
    lab_tuning_free(&t);
    if (!strstr(why.text, word) || !strstr(why.text, "bad.state"))
        fail_msg("\"%s\" does not say \"%s\"", why.text, word);
}

/* `text` with the first `from` replaced. */
static char *with(const char *text, const char *from, const char *to) {
    static char out[65536];
    const char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(out, sizeof out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

static void test_tune__a_record_of_another_search__refused(void **state) {
    (void)state;
    lab_tuning t;
    const lab_tune_options o = quick_options(3, "good.state");
    assert_true(lab_tune(&t, gpu, &spec, &o, NULL, NULL, &why));
    assert_true(t.trial_count > 1);
    lab_tuning_free(&t);
    char *good = strdup(read_text(o.state));
    refuses_state("{", 0, ":1:");
    refuses_state("{}", 0, "schema: is missing");
    refuses_state(with(good, "attest-tune-state-1", "attest-bench-1"), 0,
                  "schema: is attest-bench-1, expected attest-tune-state-1");
    refuses_state(good, 1, "search.seed: is 0, but this search's is 1");
    refuses_state(with(good, "b1h1s17d64", "b1h1s18d64"), 0, "search.problem");
    refuses_state(with(good, "\"gpu_uuid\": \"GPU-", "\"gpu_uuid\": \"GPX-"), 0,
                  "search.gpu_uuid");
    refuses_state(with(good, "\"tile\"", "\"tail\""), 0,
                  "trials[0].tile: expected four whole numbers");
    refuses_state(with(good, "\"pass\"", "\"fine\""), 0,
                  "trials[0].outcome: expected pass, fail or refused");
    refuses_state(with(good, "\"cost\": ", "\"cost\": -"), 0,
                  "trials[0].cost: expected a number above 0");
    refuses_state(with(good, "\"median_ns\": ", "\"median_ns\": true, \"was\": "), 0,
                  "trials[0].median_ns: expected a number");
    refuses_state(with(good, "\"trials\": ", "\"trails\": "), 0, "trials: is missing");
    refuses_state(with(good, "\"off\": []", "\"off\": [\"SPEED\"]"), 0,
                  "trials[0].off[0]: is not a switch");
    refuses_state(with(good, "\"tile\": [\n    64", "\"tile\": [\n    32"), 0,
                  "not those of seed 0");
    free(good);

    lab_tune_options nowhere = quick_options(1, "x");
    nowhere.state = "/nonexistent/state";
    assert_false(lab_tune(&t, gpu, &spec, &nowhere, NULL, NULL, &why));
    assert_non_null(strstr(why.text, "/nonexistent/state"));
    lab_tuning_free(&t);
}

static void test_tune__no_time__no_winner(void **state) {
    (void)state;
    lab_tuning t;
    lab_tune_options o = quick_options(0, "none.state");
    o.budget_seconds = 0.0;
    assert_true(lab_tune(&t, gpu, &spec, &o, NULL, NULL, &why));
    assert_int_equal(t.trial_count, 0);
    assert_false(t.has_winner);
    assert_null(lab_tuning_best(&t));
    lab_tuning_free(&t);
}

static void count_trials(const lab_tuning *t, const lab_trial *trial, bool best, double seconds,
                         void *state) {
    (void)trial, (void)best;
    assert_true(seconds >= 0.0 && t->trial_count == ++*(size_t *)state);
}

static void test_tune__wrong_variants__never_win(void **state) {
    (void)state;
    setenv("FAKE_CUDA_WRONG", "-DSTAGES=3", 1);
    lab_spec other; /* code that this process has not loaded yet */
    assert_true(lab_spec_parse(&other, "b1h1s17d64,bf16", &why));
    lab_tuning t;
    size_t watched = 0;
    const lab_tune_options o = quick_options(16, "wrong.state");
    if (!lab_tune(&t, gpu, &other, &o, count_trials, &watched, &why))
        fail_msg("%s", why.text);
    unsetenv("FAKE_CUDA_WRONG");
    assert_int_equal(watched, t.trial_count);
    assert_true(t.wrong > 0);
    for (size_t i = 0; i < t.trial_count; i++)
        assert_int_equal(isfinite(t.trials[i].cost) != 0, t.trials[i].variant.stages != 3);
    if (t.has_winner)
        assert_int_not_equal(t.winner.stages, 3);
    lab_tuning_free(&t);
}

static void test_variants__what_cannot_be_varied__says_why(void **state) {
    (void)state;
    lab_base base;
    att_context *cpu, *naive;
    const att_context_options on_cpu = {.size = sizeof on_cpu, .device = ATT_DEVICE_CPU};
    assert_ok(att_context_create(&cpu, &on_cpu));
    assert_false(lab_base_find(&base, cpu, &spec, &why));
    assert_non_null(strstr(why.text, "CPU"));
    att_context_destroy(cpu);
    const att_context_options slow = {.size = sizeof slow,
                                      .device = ATT_DEVICE_CUDA,
                                      .flags = ATT_ALLOW_SLOW,
                                      .kernel = "naive_sm80"};
    assert_ok(att_context_create(&naive, &slow));
    assert_false(lab_base_find(&base, naive, &spec, &why));
    assert_non_null(strstr(why.text, "naive.cu has no switches"));
    att_context_destroy(naive);
    lab_spec wide;
    assert_true(lab_spec_parse(&wide, "b1h1s17d300", &why));
    assert_false(lab_base_find(&base, gpu, &wide, &why));
    assert_non_null(strstr(why.text, "no kernel serves"));
}

/* The row of a problem with every feature is read as a row, and supports that problem. */
static void test_variants__a_rich_problem__its_row_serves_it(void **state) {
    (void)state;
    lab_spec rich;
    lab_base base;
    char row[LAB_VARIANT_TEXT];
    assert_true(lab_spec_parse(&rich,
                               "b2h4hkv2s40sk48d64,causal=bottom-right,window=16:0,softcap=30,"
                               "alibi,sinks,bias,lensk,o=f32,lse",
                               &why));
    if (!lab_base_find(&base, gpu, &rich, &why))
        fail_msg("%s", why.text);
    lab_variant_row(&base, &base.shipped, "user_rich", row, sizeof row);
    assert_non_null(strstr(row, "with     = alibi bias sinks lens_k window softcap o_type\n"));
    assert_non_null(strstr(row, "causal   = bottom-right\n"));
    att_context *ctx;
    att_plan *plan;
    if (!lab_variant_open(&ctx, &base, &base.shipped, "user_rich", false, &why))
        fail_msg("%s", why.text);
    assert_ok(att_plan_create(&plan, ctx, &rich.problem));
    assert_string_equal(att_plan_kernel(plan), "user_rich");
    att_plan_destroy(plan);
    att_context_destroy(ctx);
}

static void test_ablate__every_switch__contributions_as_the_flags_say(void **state) {
    (void)state;
    lab_bench_options o = lab_bench_defaults();
    o.seconds = 0.0;
    o.warmup_seconds = 0.0;
    lab_ablation a;
    FILE *nowhere = fopen("/dev/null", "w");
    if (!lab_ablate(&a, gpu, &spec, &o, nowhere, &why))
        fail_msg("%s", why.text);
    fclose(nowhere);
    const size_t n = a.base.switch_count;
    assert_int_equal(a.count, 2 * n + 1);
    for (size_t i = 1; i < a.count; i++) {
        const lab_ablation_step *step = &a.steps[i];
        assert_true(step->judged);
        if (step->kind == LAB_ONE_OFF) { /* 8 us of 200, and 2 % of noise */
            assert_int_equal(step->verdict.kind, LAB_SLOWER);
            assert_near(step->verdict.effect, 0.04, 0.015);
        } else if (step->kind == LAB_CUMULATIVE) {
            assert_int_equal(step->verdict.kind, LAB_FASTER);
        } else {
            assert_int_equal(step->kind, LAB_ALL_OFF);
            assert_near(step->verdict.effect, 0.04 * (double)n, 0.03);
        }
    }
    assert_true(a.last_judged && a.last.kind == LAB_FASTER);
    lab_ablation_free(&a);
}

/* Every tile that a search of fwd_sm90 may propose is valid for a row, and the shipped row is
 * the first. */
static void test_space__of_hopper__tiles_of_its_own(void **state) {
    (void)state;
    static const struct {
        int d;
        lab_variant shipped;
        bool small;
    } cases[] = {{64, {.m = 64, .n = 128, .stages = 1, .warps = 8}, true},
                 {128, {.m = 64, .n = 64, .stages = 2, .warps = 8}, true},
                 {64, {.m = 128, .n = 64, .stages = 4, .warps = 16}, true},
                 {64, {.m = 192, .n = 128, .stages = 4, .warps = 16}, false},
                 {64, {.m = 256, .n = 64, .stages = 4, .warps = 20}, false},
                 {128, {.m = 128, .n = 128, .stages = 2, .warps = 12}, false},
                 {256, {.m = 128, .n = 80, .stages = 2, .warps = 12}, false}};
    lab_device device = {.limits = {.shared_per_block = 227 * 1024}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *source = cases[i].small ? "fwd_sm90_small" : "fwd_sm90";
        const lab_base base = {.spec = &spec,
                               .source = source,
                               .family = gpu_family_of(source),
                               .d_qk = cases[i].d,
                               .d_v = cases[i].d,
                               .shipped = cases[i].shipped};
        const lab_tune_ground ground = {.base = &base, .device = &device};
        lab_space space;
        lab_genome seeds[LAB_TUNE_SEEDS], genome = {{0}};
        lab_tune_space(&space, &ground);
        assert_int_equal(lab_tune_seeds(&ground, seeds), 1);
        const lab_variant first = lab_tune_variant(&base, &seeds[0]);
        assert_memory_equal(&first, &cases[i].shipped, sizeof first);
        assert_true(space.feasible(&seeds[0], space.state));
        size_t fitting = 0, all = 0;
        for (genome.allele[0] = 0; genome.allele[0] < space.genes[0].alleles;
             genome.allele[0]++)
            for (genome.allele[2] = 0; genome.allele[2] < space.genes[2].alleles;
                 genome.allele[2]++)
                for (genome.allele[3] = 0; genome.allele[3] < space.genes[3].alleles;
                     genome.allele[3]++, all++) {
                    const lab_variant v = lab_tune_variant(&base, &genome);
                    const int tile[4] = {v.m, v.n, v.stages, v.warps};
                    char text[128];
                    if (!base.family->tile_fits(tile, text, sizeof text))
                        fail_msg("m%dn%ds%dw%d: %s", v.m, v.n, v.stages, v.warps, text);
                    fitting += space.feasible(&genome, space.state);
                }
        assert_true(fitting > 3 && fitting < all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_space__of_hopper__tiles_of_its_own),
        cmocka_unit_test(test_tune__better_constants__a_row_that_serves),
        cmocka_unit_test(test_keep__a_file_with_rows__others_stay),
        cmocka_unit_test(test_tune__resumed__goes_on_from_its_record),
        cmocka_unit_test(test_tune__a_record_of_another_search__refused),
        cmocka_unit_test(test_tune__no_time__no_winner),
        cmocka_unit_test(test_tune__wrong_variants__never_win),
        cmocka_unit_test(test_variants__what_cannot_be_varied__says_why),
        cmocka_unit_test(test_variants__a_rich_problem__its_row_serves_it),
        cmocka_unit_test(test_ablate__every_switch__contributions_as_the_flags_say),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
