/* test_chosen.c: the problems that kernels are certified on. */
#include <stdlib.h>
#include <string.h>

#include "lab/evidence/certify.h"
#include "lab/evidence/chosen.h"
#include "tests/support/check.h"
#include "tests/support/evidence_folder.h"
#include "tests/support/fakes.h"

static att_context *cpu, *gpu;

static void test_wants__production_kernels_of_the_device__by_pattern(void **state) {
    (void)state;
    const size_t plain = kernel_index(first_of_role(ATT_ROLE_PLAIN)),
                 rung = kernel_index("naive_sm80");
    assert_true(lab_certify_wants(gpu, plain, NULL));
    assert_true(lab_certify_wants(gpu, plain, "fwd_*"));
    assert_false(lab_certify_wants(gpu, plain, "decode_*"));
    assert_false(lab_certify_wants(gpu, rung, NULL));
    assert_false(lab_certify_wants(gpu, kernel_index("fwd_cpu_portable"), NULL));
    assert_true(lab_certify_wants(cpu, kernel_index("fwd_cpu_portable"), "*_portable"));
    assert_false(lab_certify_wants(cpu, plain, NULL));
}

/* The kernels that the library plans for the problems of a suite, of which one may be forced.
 * The names live as long as the library. */
static void plan_all(const char **ids, const lab_suite *suite, const char *forced,
                     uint32_t flags) {
    const att_context_options options = {.size = sizeof options,
                                         .device = ATT_DEVICE_CUDA,
                                         .kernel = forced,
                                         .flags = flags,
                                         .rows = ""};
    att_context *ctx = NULL;
    assert_ok(att_context_create(&ctx, &options));
    for (size_t i = 0; i < suite->count; i++) {
        att_plan *plan = NULL;
        const lab_spec *spec = &suite->specs[i];
        const bool planned = spec->operation->plan(&plan, ctx, spec) == ATT_OK;
        ids[i] = planned ? att_plan_kernel(plan) : "";
        att_plan_destroy(plan);
    }
    att_context_destroy(ctx);
}

static size_t count(const char *const *ids, const lab_suite *suite, const char *id) {
    size_t n = 0;
    for (size_t i = 0; i < suite->count; i++)
        n += strcmp(ids[i], id) == 0;
    return n;
}

/* A suite, and the kernels planned for it: without the rows that lack evidence, and with them.
 * Such a row may get some: it is checked as it will be. */
typedef struct planned_suite {
    lab_suite suite;
    const char **ids[2];
} planned_suite;

static void read_suite(planned_suite *s, const char *name, bool plan) {
    lab_message why;
    if (!lab_suite_read(&s->suite, name, &why))
        fail_msg("%s", why.text);
    for (int i = 0; i < 2; i++) {
        s->ids[i] = calloc(s->suite.count, sizeof *s->ids[i]);
        assert_non_null(s->ids[i]);
        if (plan)
            plan_all(s->ids[i], &s->suite, NULL, i ? ATT_ALLOW_UNATTESTED : 0);
    }
}

static void free_suite(planned_suite *s) {
    for (int i = 0; i < 2; i++)
        free(s->ids[i]);
    lab_suite_free(&s->suite);
}

static void test_suites__every_kernel__has_problems_of_its_own(void **state) {
    (void)state;
    planned_suite rows, chosen, timed;
    read_suite(&rows, SUITES "/rows.txt", false);
    read_suite(&chosen, SUITES "/gpu.txt", true);
    read_suite(&timed, SUITES "/certify.txt", true);
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        const char *id = row->id;
        const int with = row->unattested;
        if (!lab_certify_wants(gpu, i, NULL) || lab_row_helps(row))
            continue;
        plan_all(rows.ids[with], &rows.suite, id, with ? ATT_ALLOW_UNATTESTED : 0);
        if (count(rows.ids[with], &rows.suite, id) +
                count(chosen.ids[with], &chosen.suite, id) <
            4)
            fail_msg("%s would be verified on fewer than four problems", id);
        if (count(timed.ids[with], &timed.suite, id) == 0)
            fail_msg("%s is chosen for no problem of certify", id);
    }
    free_suite(&rows);
    free_suite(&chosen);
    free_suite(&timed);
}

/* A kernel that only helps others is tested through their problems. */
static void test_chooser__kernels_that_help__know_whom(void **state) {
    (void)state;
    size_t helping = 0;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (lab_row_helps(row) != (row->family->steps_in != NULL))
            fail_msg("%s helps others, or its family says so: not both", row->id);
        helping += lab_row_helps(row);
    }
    assert_true(helping > 4);
}

/* A kernel that reads masks is never planned alone: it is tested through problems of the rows
 * that it reads for. */
static void test_chooser__reader_of_masks__by_the_rows_that_it_reads_for(void **state) {
    (void)state;
    static const struct {
        const char *line;
        bool is_for;
    } cases[] = {{"b1h2s200d64,fp16,bias=bool", true},
                 {"b1h2s200d192,fp16,bias=bool", false}, /* no row for it: the general one */
                 {"b1h2s200d64,fp16,bias=f32", false},
                 {"b1h2s200d64,fp16", false}};
    lab_chooser chooser = {.row = att_registry_row(kernel_index(first_of_role(ATT_ROLE_MASK)))};
    assert_true(lab_chooser_set_gpu(&chooser, "NVIDIA H200", 90, 132));
    assert_true(lab_row_helps(chooser.row));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lab_spec spec;
        lab_message why;
        if (!lab_spec_parse(&spec, cases[i].line, &why))
            fail_msg("%s", why.text);
        assert_int_equal(lab_chooser_chosen(&chooser, &spec), cases[i].is_for);
        assert_int_equal(lab_chooser_serves(&chooser, &spec), cases[i].is_for);
    }
}

static int set_up(void **state) {
    (void)state;
    const att_context_options on_cpu = {.size = sizeof on_cpu, .device = ATT_DEVICE_CPU};
    const att_context_options on_gpu = {.size = sizeof on_gpu, .device = ATT_DEVICE_CUDA};
    use_fake_cuda();
    use_no_nvrtc();
    setenv("ATTEST_DEVICES", SUITES "/../devices", 1);
    assert_ok(att_context_create(&cpu, &on_cpu));
    assert_ok(att_context_create(&gpu, &on_gpu));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    att_context_destroy(cpu);
    att_context_destroy(gpu);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wants__production_kernels_of_the_device__by_pattern),
        cmocka_unit_test(test_suites__every_kernel__has_problems_of_its_own),
        cmocka_unit_test(test_chooser__kernels_that_help__know_whom),
        cmocka_unit_test(test_chooser__reader_of_masks__by_the_rows_that_it_reads_for),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
