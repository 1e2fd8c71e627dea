/* test_plan_kernels.c: the kernels of a plan: their times are those by which the library
 * chooses, their blocks those that it launches. */
#include <math.h>
#include <string.h>

#include "core/select.h"
#include "lab/plan/plan_result.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"

static lab_message why;

/* Tiles of every size, one round and many, masks, groups that are packed, padded heads, few
 * rows of many keys. */
static const char *const problems[] = {"b1h8s512d64",
                                       "b2h16s8192d128,bf16",
                                       "b4h16s4096d128,causal",
                                       "b1h8s2048d64,causal",
                                       "b2h32hkv8s33sk4096d128,bf16",
                                       "b1h32hkv8s64sk16384d128,bf16",
                                       "b8h32hkv8s16sk4096d128,bf16",
                                       "b1h2s4096d64,causal",
                                       "b2h4s300d80",
                                       "b2h4s300d256,bf16",
                                       "b1h8s512d64,softcap=20",
                                       "b1h32hkv8s1sk8192d128,bf16",
                                       "b2h32hkv8s1sk4096d128,bf16",
                                       "b1h1s1sk131072d128,bf16",
                                       "b64h32hkv8s1sk8192d128,bf16"};
enum { PROBLEMS = sizeof problems / sizeof problems[0] };

static lab_device device_of(const char *name) {
    lab_device device;
    char path[256];
    snprintf(path, sizeof path, "devices/%s.json", name);
    if (!lab_device_read(&device, path, &why))
        fail_msg("%s", why.text);
    return device;
}

static lab_plan_result plan_of(const char *text, const lab_device *device, lab_spec *spec) {
    lab_plan_result plan;
    if (!lab_spec_parse(spec, text, &why) || !lab_plan_make(&plan, spec, device, NULL, &why))
        fail_msg("%s: %s", text, why.text);
    return plan;
}

static const lab_plan_kernel *kernel_of(const lab_plan_result *plan, const char *id) {
    for (size_t i = 0; i < plan->kernel_count; i++)
        if (strcmp(plan->kernels[i].row->id, id) == 0)
            return &plan->kernels[i];
    fail_msg("%s is not listed", id);
    return NULL;
}

/* ------------------------------------------------------------------------------------
 * choice */

static void check_choice(const char *text, const lab_device *device) {
    lab_spec spec;
    lab_plan_result plan = plan_of(text, device, &spec);
    const att_limits limits = {
        .device = ATT_DEVICE_CUDA, .gpu = &device->limits, .allow_unattested = true};
    assert_ptr_equal(plan.chosen, &plan.kernels[0]);
    assert_ptr_equal(plan.chosen->row,
                     att_select_find(&limits, &att_operation_attention, &spec.problem));
    for (size_t i = 0; i < plan.kernel_count; i++) {
        const lab_plan_kernel *k = &plan.kernels[i];
        att_refusal refusal;
        assert_int_equal(k->chosen, i == 0);
        assert_true(
            att_row_serves(k->row, &limits, &att_operation_attention, &spec.problem, &refusal));
        assert_true(i < 2 || k->model == LAB_TIME_NONE ||
                    (k[-1].model != LAB_TIME_NONE && k->seconds >= k[-1].seconds));
        assert_true(k->model == LAB_TIME_NONE ||
                    k->seconds >= 0.999 * lab_floor_seconds(&plan.floor));
        if (k->model != LAB_TIME_SELECTOR)
            continue;
        assert_true(k->seconds ==
                    fmax(1e-9 * k->row->family->estimate(k->row, &limits, &spec.problem),
                         lab_floor_seconds(&plan.floor)));
        /* If the library decides by these times, nothing that it passed over is faster. */
        if (plan.chosen->model == LAB_TIME_SELECTOR)
            assert_true(k->seconds >= plan.chosen->seconds);
    }
    lab_plan_free(&plan);
}

static void test_kernels__the_chosen_one__is_the_selectors_and_first(void **state) {
    (void)state;
    static const char *const names[] = {"a100", "l4", "h100", "h200"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        const lab_device device = device_of(names[n]);
        for (size_t i = 0; i < PROBLEMS; i++)
            check_choice(problems[i], &device);
    }
}

static void test_kernels__hopper_rows_with_times__are_all_listed(void **state) {
    (void)state;
    const lab_device h200 = device_of("h200");
    lab_spec spec;
    lab_plan_result plan = plan_of("b4h16s4096d128,causal", &h200, &spec);
    assert_int_equal(plan.chosen->model, LAB_TIME_SELECTOR);
    assert_int_equal(kernel_of(&plan, "fwd_sm90_f16_d128_m192n80s3")->model, LAB_TIME_SELECTOR);
    assert_int_equal(kernel_of(&plan, "fwd_sm90_f16_d128_m128n128s2")->model,
                     LAB_TIME_SELECTOR);
    assert_int_equal(kernel_of(&plan, "fwd_sm90_small_f16_d128_m64n64s2w8")->model,
                     LAB_TIME_SELECTOR);
    assert_int_equal(kernel_of(&plan, "fwd_sm90_f16_d128_general_m128n64s2")->model,
                     LAB_TIME_NONE);
    assert_int_equal(kernel_of(&plan, "fwd_sm80_f16_d128_m128n32s2")->model, LAB_TIME_TILE);
    lab_plan_free(&plan);
    /* A row that only supports larger heads has no time here, instead of an infinite one. */
    plan = plan_of("b4h16s4096d96,causal", &h200, &spec);
    assert_int_equal(kernel_of(&plan, "fwd_sm90_f16_d128_m192n80s3")->model, LAB_TIME_NONE);
    lab_plan_free(&plan);
}

/* ------------------------------------------------------------------------- how it is cut */

static void test_kernels__blocks_and_rounds__as_counted_by_hand(void **state) {
    (void)state;
    const lab_device h200 = device_of("h200");
    lab_spec spec;
    lab_plan_result plan = plan_of("b4h16s4096d128,causal", &h200, &spec);
    const lab_plan_kernel *stays = kernel_of(&plan, "fwd_sm90_f16_d128_m192n80s3");
    assert_int_equal((int)stays->tiles, 4 * 16 * 22);
    assert_int_equal((int)stays->blocks, 132);
    assert_true(fabs(stays->rounds - 1408.0 / 132.0) < 1e-9);
    assert_int_equal(stays->threads, 512);
    const lab_plan_kernel *small = kernel_of(&plan, "fwd_sm90_small_f16_d128_m64n64s2w8");
    assert_int_equal((int)small->blocks, 4 * 16 * 64);
    lab_plan_free(&plan);
}

/* One launch of 2600 ns; 8 heads of 8192 keys by 8 blocks each, 1024 keys of 512 bytes at 64
 * bytes per nanosecond: more than the 33.6 MB take at 4500. */
static void test_kernels__decode__as_its_cost_model_says(void **state) {
    (void)state;
    const lab_device h200 = device_of("h200");
    lab_spec spec;
    lab_plan_result plan = plan_of("b1h32hkv8s1sk8192d128,bf16", &h200, &spec);
    assert_int_equal(plan.chosen->model, LAB_TIME_DECODE);
    assert_int_equal(plan.chosen->splits, 8);
    assert_true(plan.chosen->cluster);
    assert_int_equal((int)plan.chosen->blocks, 64);
    assert_true(fabs(plan.chosen->seconds - 1e-9 * (2600.0 + 1024.0 * 512.0 / 64.0)) < 1e-12);
    /* The decode of older GPUs is planned, but has no time. */
    const lab_plan_kernel *older = kernel_of(&plan, "decode_sm80_bf16_d128_n16s3w4");
    assert_int_equal(older->model, LAB_TIME_NONE);
    assert_true(older->splits > 1);
    lab_plan_free(&plan);
}

/* Rows that the library launches unpacked are predicted unpacked. */
static void test_kernels__few_rows_of_a_group__are_not_packed_by_fwd_sm80(void **state) {
    (void)state;
    const lab_device h200 = device_of("h200");
    lab_spec spec;
    lab_plan_result plan = plan_of("b1h32hkv8s1sk8192d128,bf16", &h200, &spec);
    const lab_plan_kernel *k = kernel_of(&plan, "fwd_sm80_bf16_d128_m64n64s2");
    assert_int_equal((int)k->tiles, 32);
    assert_true(fabs(k->rounds * 132.0 * 2.0 - k->blocks) < 1e-6); /* two fit an SM */
    lab_plan_free(&plan);
}

/* The fake GPU 0 is an H200. fwd_sm80's parts depend on the registers that the compiler
 * assigned, which a plan does not know. */
static void test_kernels__grid__is_what_the_library_launches(void **state) {
    (void)state;
    use_fake_cuda();
    const lab_device h200 = device_of("h200");
    for (size_t i = 0; i < PROBLEMS; i++) {
        lab_spec spec;
        lab_plan_result plan = plan_of(problems[i], &h200, &spec);
        for (size_t r = 0; r < plan.kernel_count; r++) {
            const lab_plan_kernel *k = &plan.kernels[r];
            gpu_plan cut;
            if (k->row->family == gpu_family_of("fwd_sm80"))
                continue;
            assert_ok(gpu_plan_cut(&cut, 0, k->row, &spec.problem));
            const att_cuda_shape *shape = &cut.tiling.shape;
            const double blocks = (double)shape->grid[0] * shape->grid[1] * shape->grid[2];
            if (blocks != k->blocks || cut.tiling.params.splits != k->splits ||
                (shape->cluster > 0) != k->cluster || shape->threads != k->threads ||
                shape->shared != k->shared)
                fail_msg("%s of %s: %.0f blocks in %d parts, planned are %.0f in %d",
                         k->row->id, problems[i], blocks, cut.tiling.params.splits, k->blocks,
                         k->splits);
        }
        lab_plan_free(&plan);
    }
}

static void test_kernels__nothing_to_compute__is_no_division_by_zero(void **state) {
    (void)state;
    const lab_device h200 = device_of("h200");
    static const char *const empty[] = {"b0h8s512d64", "b1h8s0sk64d64", "b1h8s1sk0d64",
                                        "b0h8s1sk64d64"};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        lab_spec spec;
        lab_plan_result plan = plan_of(empty[i], &h200, &spec);
        for (size_t k = 0; k < plan.kernel_count; k++)
            assert_true(isfinite(plan.kernels[k].blocks) && isfinite(plan.kernels[k].rounds));
        lab_plan_free(&plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels__the_chosen_one__is_the_selectors_and_first),
        cmocka_unit_test(test_kernels__hopper_rows_with_times__are_all_listed),
        cmocka_unit_test(test_kernels__blocks_and_rounds__as_counted_by_hand),
        cmocka_unit_test(test_kernels__decode__as_its_cost_model_says),
        cmocka_unit_test(test_kernels__few_rows_of_a_group__are_not_packed_by_fwd_sm80),
        cmocka_unit_test(test_kernels__grid__is_what_the_library_launches),
        cmocka_unit_test(test_kernels__nothing_to_compute__is_no_division_by_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
