/* test_moe_gpu.c: a layer of experts on a GPU: which tile is chosen, what is refused and why,
 * and which kernels a run launches, on a fake driver. The virtual GPU tests what the kernels
 * compute. */
#include <stdlib.h>
#include <string.h>

#include "core/select.h"
#include "kernels/moe_params.h"
#include "kernels/moe_sm90_params.h"
#include "moe/cuda/moe_cuda.h"
#include "moe/cuda/moe_gpu_params.h"
#include "moe/moe.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"

static const att_cuda_limits h200 = {
    .cc = 90, .sms = 132, .shared_per_block = 227 << 10, .shared_per_sm = 228 << 10};
static const att_limits limits = {
    .device = ATT_DEVICE_CUDA, .gpu = &h200, .allow_unattested = true};

static att_moe_problem qwen(int64_t tokens) {
    att_moe_problem p;
    att_moe_problem_init(&p, tokens, 2048, 768, 128, 8, ATT_BF16);
    return p;
}

/* ------------------------------------------------------------------ choice */

static void test_choice__few_tokens_small_tiles_many_large_ones(void **state) {
    (void)state;
    static const struct {
        int64_t tokens;
        const char *kernel;
        const char *transposed; /* the copy engine cannot read this layout of weights */
    } cases[] = {{1, "moe_few_bf16_m4n1s4w8", "moe_sm80_bf16_m16n32s6w4"},
                 {4, "moe_few_bf16_m4n1s4w8", "moe_sm80_bf16_m16n32s6w4"},
                 {8, "moe_sm90_bf16_m32n128s6w12", "moe_sm80_bf16_m16n32s6w4"},
                 {64, "moe_sm90_bf16_m32n128s6w12", "moe_sm80_bf16_m16n32s6w4"},
                 {512, "moe_sm90_bf16_m64n128s5w12", "moe_sm80_bf16_m64n64s3w4"},
                 {1024, "moe_sm90_bf16_m176n128s4w12", "moe_sm80_bf16_m64n64s3w4"},
                 {16384, "moe_sm90_bf16_m176n128s4w12", "moe_sm80_bf16_m64n64s3w4"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        att_moe_problem p = qwen(cases[i].tokens);
        const att_kernel_row *row = att_select_find(&limits, &att_operation_moe, &p);
        assert_non_null(row);
        assert_string_equal(row->id, cases[i].kernel);
        p.flags |= ATT_MOE_TRANSPOSED;
        att_moe_problem_layout(&p);
        row = att_select_find(&limits, &att_operation_moe, &p);
        assert_non_null(row);
        assert_string_equal(row->id, cases[i].transposed);
    }
}

/* The second product has the tile of the first. */
static void test_choice__second_product_by_tile(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"moe_few_bf16_m4n1s4w8", "moe_few_down_bf16_m4n2s4w8"},
        {"moe_sm90_bf16_m32n128s6w12", "moe_down_sm90_bf16_m32n256s6w12"},
        {"moe_sm90_f16_m64n128s5w12", "moe_down_sm90_f16_m64n256s5w12"},
        {"moe_sm90_bf16_m176n128s4w12", "moe_down_sm90_bf16_m176n256s4w12"},
        {"moe_sm80_bf16_m16n32s6w4", "moe_down_sm80_bf16_m16n64s6w4"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const att_kernel_row *main = gpu_row_named(pairs[i][0]);
        assert_string_equal(att_moe_step_of(att_moe_down_family(main), main, true)->id,
                            pairs[i][1]);
    }
}

static void refused(const att_moe_problem *p, const att_limits *by, const char *kernel,
                    const char *field, const char *word) {
    att_refusal refusal;
    assert_false(att_row_serves(gpu_row_named(kernel), by, &att_operation_moe, p, &refusal));
    assert_string_equal(refusal.field, field);
    if (!strstr(refusal.why, word))
        fail_msg("%s: \"%s\" does not say \"%s\"", kernel, refusal.why, word);
}

/* What Hopper's products refuse goes to the other kernels. */
static void test_refusals__of_the_copy_engine(void **state) {
    (void)state;
    static const char *const kernel = "moe_sm90_bf16_m64n128s5w12";
    att_moe_problem p = qwen(4);
    p.flags |= ATT_MOE_TRANSPOSED;
    att_moe_problem_layout(&p);
    refused(&p, &limits, kernel, "flags", "(columns, depth)");
    p = qwen(4);
    p.x_row += 4;
    refused(&p, &limits, kernel, "x_row", "16 bytes");
    p = qwen(4);
    p.w1.row += 4;
    refused(&p, &limits, kernel, "w1", "16 bytes");
    p = qwen(4);
    p.w2.expert += 4;
    refused(&p, &limits, kernel, "w2", "16 bytes");
    p = qwen(4);
    p.w2.expert = 0;
    refused(&p, &limits, kernel, "w1", "stride is 0");
    p = qwen(4);
    p.w1.expert = INT64_C(1) << 40;
    refused(&p, &limits, kernel, "w1", "2^40");
    p = qwen(4);
    p.w1.row = INT64_C(1) << 38;
    refused(&p, &limits, kernel, "w1", "2^39");
    p = qwen(4);
    p.x_row = INT64_C(1) << 33;
    refused(&p, &limits, kernel, "x_row", "32 GiB");
}

/* Kernels for few tokens read 16 bytes along the depth, at any stride of experts, and have a
 * thread per slot. */
static void test_refusals__of_few_tokens(void **state) {
    (void)state;
    static const char *const kernel = "moe_few_bf16_m4n1s4w8";
    att_refusal refusal;
    att_moe_problem p = qwen(4);
    p.w1.expert = p.w2.expert = 0;
    assert_true(
        att_row_serves(gpu_row_named(kernel), &limits, &att_operation_moe, &p, &refusal));
    p.flags |= ATT_MOE_TRANSPOSED;
    att_moe_problem_layout(&p);
    refused(&p, &limits, kernel, "flags", "(columns, depth)");
    p = qwen(4);
    p.w2.row += 4;
    refused(&p, &limits, kernel, "w2", "16 bytes");
    p = qwen(32);
    assert_true(
        att_row_serves(gpu_row_named(kernel), &limits, &att_operation_moe, &p, &refusal));
    p = qwen(33);
    refused(&p, &limits, kernel, "tokens", "264 is more than 256");
}

/* They route and add up themselves: other kernels' steps are none of theirs. */
static void test_steps__of_few_tokens__second_product_alone(void **state) {
    (void)state;
    const att_moe_problem p = qwen(4);
    const att_kernel_row *few = gpu_row_named("moe_few_bf16_m4n1s4w8"),
                         *hopper = gpu_row_named("moe_sm90_bf16_m64n128s5w12"),
                         *down = gpu_row_named("moe_few_down_bf16_m4n2s4w8");
    static const char *const others[] = {"moe_route_sm80", "moe_combine_sm80"};
    assert_true(down->family->steps_in(down, few, &p));
    assert_false(down->family->steps_in(down, hopper, &p));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const att_kernel_row *step = gpu_row_named(others[i]);
        assert_false(step->family->steps_in(step, few, &p));
        assert_true(step->family->steps_in(step, hopper, &p));
    }
}

/* Layers without tokens or without experts cost their launches alone. */
static void test_estimate__nothing_reached__launches(void **state) {
    (void)state;
    att_moe_problem none = qwen(0), elsewhere = qwen(4);
    elsewhere.local_experts = 0;
    static const char *const kernels[] = {"moe_few_bf16_m4n1s4w8", "moe_sm90_bf16_m64n128s5w12",
                                          "moe_sm80_bf16_m16n32s6w4"};
    static const double most[] = {5.0, 10.0, 10.0};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        const att_kernel_row *row = gpu_row_named(kernels[i]);
        const att_moe_problem one = qwen(1);
        assert_true(att_moe_gpu_estimate(row, &limits, &none) <= most[i]);
        assert_true(att_moe_gpu_estimate(row, &limits, &elsewhere) <= most[i]);
        assert_true(att_moe_gpu_estimate(row, &limits, &one) > most[i]);
    }
}

static void test_refusals__by_field(void **state) {
    (void)state;
    att_moe_problem p = qwen(4);
    refused(&p, &limits, "moe_sm80_f16_m16n32s6w4", "dtype", "is for f16, not bf16");
    refused(&p, &limits, "moe_route_sm80", "role", "step of other kernels");
    p.dtype = p.dtype_y = p.dtype_bias = ATT_F32;
    refused(&p, &limits, "moe_sm80_bf16_m16n32s6w4", "dtype", "not f32");
    p = qwen(INT32_MAX / 8);
    refused(&p, &limits, "moe_sm80_bf16_m16n32s6w4", "tokens", "32 bits");
    p = qwen(4);
    p.hidden = INT32_MAX;
    refused(&p, &limits, "moe_sm80_bf16_m16n32s6w4", "hidden", "32 bits");
    p = qwen(4);
    p.inner = INT32_MAX / 2 + 1;
    refused(&p, &limits, "moe_sm80_bf16_m16n32s6w4", "inner", "32 bits");
}

static void test_without_evidence__off(void **state) {
    (void)state;
    att_cuda_limits older = h200;
    att_limits strict = limits;
    strict.allow_unattested = false;
    const att_moe_problem p = qwen(4);
    assert_non_null(att_select_find(&strict, &att_operation_moe, &p));
    older.cc = 80; /* nobody has certified the kernels there */
    strict.gpu = &older;
    assert_null(att_select_find(&strict, &att_operation_moe, &p));
}

/* ------------------------------------------------------------------- flags */

static int flags_of(const att_moe_problem *p) {
    att_moe_params params;
    att_moe_params_of(&params, p);
    return params.flags;
}

static void test_vectors__only_where_every_row_is_whole(void **state) {
    (void)state;
    enum { ALL = ATT_MOE_VECTOR_X | ATT_MOE_VECTOR_W1 | ATT_MOE_VECTOR_W2 | ATT_MOE_VECTOR_Y };
    att_moe_problem p = qwen(4);
    assert_int_equal(flags_of(&p), ALL | ATT_MOE_GATED);
    p.alignment = 8;
    assert_int_equal(flags_of(&p), ATT_MOE_GATED);
    p = qwen(4);
    p.x_row += 4;
    p.y_row += 2;
    assert_int_equal(flags_of(&p), ATT_MOE_VECTOR_W1 | ATT_MOE_VECTOR_W2 | ATT_MOE_GATED);
    p = qwen(4);
    p.w1.row += 1;
    assert_int_equal(flags_of(&p), (ALL & ~ATT_MOE_VECTOR_W1) | ATT_MOE_GATED);
    p = qwen(4);
    p.inner = 764; /* rows of w2, which are complete again in the other layout */
    att_moe_problem_layout(&p);
    assert_int_equal(flags_of(&p), (ALL & ~ATT_MOE_VECTOR_W2) | ATT_MOE_GATED);
    p.flags |= ATT_MOE_TRANSPOSED;
    att_moe_problem_layout(&p);
    assert_int_equal(flags_of(&p), (ALL & ~ATT_MOE_VECTOR_W1) | ATT_MOE_GATED | ATT_MOE_KN);
    p.gate = ATT_MOE_INTERLEAVED; /* 1528 columns */
    att_moe_problem_layout(&p);
    assert_int_equal(flags_of(&p), ALL | ATT_MOE_GATED | ATT_MOE_KN);
    p.gate = ATT_MOE_APART;
    att_moe_problem_layout(&p);
    assert_int_equal(flags_of(&p), (ALL & ~ATT_MOE_VECTOR_W1) | ATT_MOE_GATED | ATT_MOE_KN);
    p = qwen(4);
    p.activation = ATT_MOE_RELU2;
    att_moe_problem_layout(&p);
    assert_int_equal(flags_of(&p), ALL);
}

/* ---------------------------------------------------------------- launches */

static char launched[8][64];
static int launch_count;

/* Both products have the same shared memory, room for the parts of a block's columns; a block
 * routes and does not multiply. The table does not run into h. */
static void check_few(const char *kernel, const CUlaunchConfig *config,
                      const att_moe_params *p) {
    static unsigned shared;
    const int slots = p->tokens * p->k;
    if (strstr(kernel, "down")) {
        assert_int_equal(config->gridDimX, p->few_blocks);
        assert_int_equal(config->sharedMemBytes, shared);
        assert_true(p->few_blocks <= p->down_steps);
        const int steps = (p->down_steps + p->few_blocks - 1) / p->few_blocks;
        assert_true(steps <= ATT_MOE_FEW_STEPS);
        assert_true(shared >= (unsigned)slots * (unsigned)(8 * steps + 8));
    } else {
        assert_int_equal(config->gridDimX, 1 + slots * p->up_steps / 8);
        shared = config->sharedMemBytes;
    }
    assert_true((char *)p->h - (char *)p->few_table >= 4 * (1 + slots * (2 + p->tile_rows)));
}

static void note(const char *kernel, const CUlaunchConfig *config, const void *params,
                 size_t bytes) {
    const att_moe_params *p = params;
    assert_int_equal(bytes, strstr(kernel, "sm90") ? sizeof(att_moe_sm90_params) : sizeof *p);
    assert_true(config->gridDimX > 0);
    if (strstr(kernel, "moe_few"))
        check_few(kernel, config, p);
    assert_true(launch_count < 8);
    snprintf(launched[launch_count++], sizeof launched[0], "%s", kernel);
    /* No two of the workspace's arrays overlap. */
    assert_true((char *)p->slot_weights - (char *)p->slot_ids >=
                (long long)p->tokens * p->k * (long long)sizeof(int));
    assert_true((char *)p->parts - (char *)p->h >=
                (long long)p->tokens * p->k * p->h_pitch * 2);
}

static void run(att_context *ctx, int64_t tokens, uint32_t features) {
    att_moe_problem p;
    att_plan *plan;
    att_moe_problem_init(&p, tokens, 64, 48, 8, 2, ATT_BF16);
    p.features = features;
    launch_count = 0;
    assert_ok(att_moe_plan_create(&plan, ctx, &p));
    const size_t bytes = att_plan_workspace(plan);
    void *workspace = aligned_alloc(ATT_WORKSPACE_ALIGN, bytes + ATT_WORKSPACE_ALIGN);
    static _Alignas(16) uint16_t x[100 * 64], w1[8 * 96 * 64], w2[8 * 64 * 48], y[100 * 64];
    static float logits[100 * 8];
    static int32_t counts[9];
    const att_moe_args args = {.size = sizeof args,
                               .x = x,
                               .logits = logits,
                               .w1 = w1,
                               .w2 = w2,
                               .y = y,
                               .counts = features & ATT_MOE_COUNTS ? counts : NULL};
    assert_ok(att_moe_run(plan, &args, workspace, NULL));
    free(workspace);
    att_plan_destroy(plan);
}

static void assert_launches(int count, const char *const names[]) {
    assert_int_equal(launch_count, count);
    for (int i = 0; i < count; i++)
        if (strncmp(launched[i], names[i], strlen(names[i])) != 0)
            fail_msg("launch %d is %s, not %s", i, launched[i], names[i]);
}

static void test_run__launches_in_order(void **state) {
    (void)state;
    static const char *const few[] = {"moe_few_bf16", "moe_few_down"};
    static const char *const many[] = {"moe_route", "moe_route", "moe_sm90", "moe_down_sm90",
                                       "moe_combine"};
    static const char *const none[] = {"moe_few_bf16"}, *const none_by_tiles[] = {"moe_route"};
    fake_cuda *fake = use_fake_cuda();
    reset_fake_cuda(fake);
    fake->memory_type = CU_MEMORYTYPE_DEVICE;
    fake->run = note;
    att_context_options options = {.size = sizeof options,
                                   .device = ATT_DEVICE_CUDA,
                                   .flags = ATT_ALLOW_UNATTESTED,
                                   .cache_dir = "",
                                   .kernel = "moe_sm90_bf16_m64n128s5w12"};
    att_context *ctx;
    assert_ok(att_context_create(&ctx, &options));
    run(ctx, 100, 0);
    assert_launches(5, many);
    run(ctx, 0, ATT_MOE_COUNTS); /* all 0, which some kernel must write */
    assert_launches(1, none_by_tiles);
    att_context_destroy(ctx);
    options.kernel = NULL;
    assert_ok(att_context_create(&ctx, &options));
    run(ctx, 1, 0);
    assert_launches(2, few);
    run(ctx, 0, ATT_MOE_COUNTS);
    assert_launches(1, none);
    att_context_destroy(ctx);
    fake->run = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice__few_tokens_small_tiles_many_large_ones),
        cmocka_unit_test(test_choice__second_product_by_tile),
        cmocka_unit_test(test_refusals__of_the_copy_engine),
        cmocka_unit_test(test_refusals__of_few_tokens),
        cmocka_unit_test(test_steps__of_few_tokens__second_product_alone),
        cmocka_unit_test(test_estimate__nothing_reached__launches),
        cmocka_unit_test(test_refusals__by_field),
        cmocka_unit_test(test_without_evidence__off),
        cmocka_unit_test(test_vectors__only_where_every_row_is_whole),
        cmocka_unit_test(test_run__launches_in_order),
    };
    return cmocka_run_group_tests(tests, use_fake_gpu, NULL);
}
