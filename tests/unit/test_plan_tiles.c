/* test_plan_tiles.c: the planner's arithmetic compared with hand-computed numbers, with the
 * formula of the launch, and with NVIDIA's occupancy calculator if the toolkit is installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lab/plan/plan_result.h"
#include "lab/plan/plan_tiles.h"

#if __has_include(<cuda_occupancy.h>)
#include <cuda_occupancy.h>
#define HAVE_CALCULATOR 1
#else
#define HAVE_CALCULATOR 0
#endif

static lab_message why;

static lab_device device_of(const char *name) {
    lab_device device;
    char path[256];
    snprintf(path, sizeof path, "devices/%s.json", name);
    if (!lab_device_read(&device, path, &why))
        fail_msg("%s", why.text);
    return device;
}

static lab_spec spec_of(const char *text) {
    lab_spec spec;
    if (!lab_spec_parse(&spec, text, &why))
        fail_msg("%s", why.text);
    return spec;
}

static void evaluate(lab_tile *tile, const lab_spec *spec, const lab_device *device) {
    lab_work work;
    lab_work_of(&work, spec);
    lab_tile_evaluate(tile, spec, &work, device);
}

static bool near(double a, double b) {
    return a > b * 0.999999 && a < b * 1.000001;
}

/* ---------------------------------------------------------------------------- floor */

static void test_floor__of_the_l4__is_as_worked_out_by_hand(void **state) {
    (void)state;
    const lab_device l4 = device_of("l4");
    const lab_spec spec = spec_of("b1h8s512d64");
    lab_work work;
    lab_floor floor;
    lab_work_of(&work, &spec);
    assert_true(near(work.pairs, 8.0 * 512 * 512));
    assert_true(near(work.flops, 4.0 * 8 * 512 * 512 * 64));
    assert_true(near(work.bytes, 4.0 * 8 * 512 * 64 * 2));
    lab_floor_of(&floor, &work, ATT_F16, &l4);
    assert_true(near(floor.seconds[LAB_BOUND_TENSOR], work.flops / 121e12));
    assert_true(near(floor.seconds[LAB_BOUND_MEMORY], work.bytes / 300e9));
    assert_true(near(floor.seconds[LAB_BOUND_EXP], work.pairs / (16.0 * 58 * 2.04e9)));
    assert_int_equal(floor.binds, LAB_BOUND_MEMORY);
    assert_false(lab_reach_of(&floor, &work, ATT_F16, &l4)); /* nothing was measured there */
}

static void test_floor__causal__counts_what_is_visible(void **state) {
    (void)state;
    const lab_spec spec = spec_of("b2h4s100d64,causal");
    lab_work work;
    lab_work_of(&work, &spec);
    assert_true(near(work.pairs, 2.0 * 4 * 100 * 101 / 2));
}

static void test_floor__float32__is_bound_by_three_products_of_terms(void **state) {
    (void)state;
    const lab_device a100 = device_of("a100");
    const lab_spec spec = spec_of("b1h8s2048d64,f32");
    lab_work work;
    lab_floor floor;
    lab_work_of(&work, &spec);
    lab_floor_of(&floor, &work, ATT_F32, &a100);
    assert_true(near(floor.seconds[LAB_BOUND_TENSOR], work.flops / (312e12 / 3.0)));
    assert_int_equal(floor.binds, LAB_BOUND_TENSOR);
    lab_device without = a100; /* if multiply-add is faster, it counts */
    without.rates[LAB_RATE_TENSOR].value = 50e12;
    lab_floor_of(&floor, &work, ATT_F32, &without);
    assert_true(near(floor.seconds[LAB_BOUND_TENSOR], work.flops / (2.0 * 64 * 108 * 1.41e9)));
}

static void test_reach__is_never_under_the_floor(void **state) {
    (void)state;
    const lab_device h200 = device_of("h200");
    static const char *const problems[] = {"b1h8s512d64", "b2h16s8192d128,bf16",
                                           "b1h32hkv8s1sk8192d128,bf16"};
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const lab_spec spec = spec_of(problems[i]);
        lab_work work;
        lab_floor floor, reach;
        lab_work_of(&work, &spec);
        lab_floor_of(&floor, &work, ATT_F16, &h200);
        assert_true(lab_reach_of(&reach, &work, ATT_F16, &h200));
        assert_true(lab_floor_seconds(&reach) >= lab_floor_seconds(&floor));
    }
}

/* ------------------------------------------------------------------------ occupancy */

static void test_occupancy__known_cases(void **state) {
    (void)state;
    const lab_device l4 = device_of("l4"), h200 = device_of("h200");
    att_cuda_resource by;
    assert_int_equal(att_cuda_resident_blocks(&l4.limits, 128, 32, 0, &by), 12);
    assert_int_equal(by, ATT_RESOURCE_WARPS);
    assert_int_equal(att_cuda_resident_blocks(&l4.limits, 32, 16, 0, &by), 24);
    assert_int_equal(by, ATT_RESOURCE_BLOCKS);
    assert_int_equal(att_cuda_resident_blocks(&l4.limits, 128, 255, 0, &by), 2);
    assert_int_equal(by, ATT_RESOURCE_REGISTERS);
    assert_int_equal(att_cuda_resident_blocks(&l4.limits, 128, 168, 49152, &by), 2);
    assert_int_equal(by, ATT_RESOURCE_SHARED);
    assert_int_equal(att_cuda_resident_blocks(&l4.limits, 128, 168, 101376, &by), 1);
    assert_int_equal(att_cuda_resident_blocks(&h200.limits, 256, 128, 114688 - 1024, &by), 2);
    assert_int_equal(att_cuda_resident_blocks(&h200.limits, 256, 129, 65536, &by), 1);
    assert_int_equal(by, ATT_RESOURCE_REGISTERS);
}

#if HAVE_CALCULATOR
/* The device in the calculator's form. */
static cudaOccDeviceProp properties_of(const att_cuda_limits *l) {
    cudaOccDeviceProp p = {0};
    p.computeMajor = l->cc / 10;
    p.computeMinor = l->cc % 10;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsPerMultiprocessor = l->threads_per_sm;
    p.regsPerBlock = l->registers_per_block;
    p.regsPerMultiprocessor = l->registers_per_sm;
    p.warpSize = 32;
    p.sharedMemPerBlock = 49152;
    p.sharedMemPerMultiprocessor = (size_t)l->shared_per_sm;
    p.numSms = l->sms;
    p.sharedMemPerBlockOptin = (size_t)l->shared_per_block;
    p.reservedSharedMemPerBlock = (size_t)l->shared_reserved;
    return p;
}

static void compare(const att_cuda_limits *l, int threads, int registers, size_t shared) {
    const cudaOccDeviceProp properties = properties_of(l);
    const cudaOccFuncAttributes function = {.maxThreadsPerBlock = 1024,
                                            .numRegs = registers,
                                            .maxDynamicSharedSizeBytes = shared,
                                            .numBlockBarriers = 1,
                                            .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN};
    const cudaOccDeviceState settings = {.cacheConfig = CACHE_PREFER_SHARED,
                                         .carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED};
    cudaOccResult result;
    assert_int_equal(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &function,
                                                             &settings, threads, shared),
                     CUDA_OCC_SUCCESS);
    att_cuda_resource by;
    const int blocks = att_cuda_resident_blocks(l, threads, registers, (uint32_t)shared, &by);
    if (blocks != result.activeBlocksPerMultiprocessor)
        fail_msg("sm_%d, %d threads, %d registers, %zu bytes: %d blocks, NVIDIA says %d", l->cc,
                 threads, registers, shared, blocks, result.activeBlocksPerMultiprocessor);
}

static void test_occupancy__agrees_with_nvidias_calculator(void **state) {
    (void)state;
    static const char *const names[] = {"a100", "a10", "l4", "rtx4090", "h100", "h200"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const lab_device device = device_of(names[i]);
        for (int threads = 32; threads <= 512; threads += 32)
            for (int registers = 16; registers <= 255; registers++)
                if (registers * threads <= 65536)
                    for (int kib = 0; kib * 1024 <= device.limits.shared_per_block; kib += 9)
                        compare(&device.limits, threads, registers, (size_t)kib * 1024 + 96);
    }
}
#else
static void test_occupancy__agrees_with_nvidias_calculator(void **state) {
    (void)state;
    print_message("skipped: occupancy against NVIDIA's calculator: no CUDA toolkit is here\n");
    skip();
}
#endif

/* ----------------------------------------------------------------------------- tiles */

static void test_tiles__the_grid__has_every_combination_once(void **state) {
    (void)state;
    const lab_spec spec = spec_of("b1h1s64d40");
    lab_tile tiles[LAB_TILE_GRID];
    for (size_t i = 0; i < LAB_TILE_GRID; i++) {
        tiles[i] = lab_tile_of_grid(i, &spec.problem);
        assert_int_equal(tiles[i].m % (16 * tiles[i].warps), 0);
        assert_int_equal(tiles[i].d_qk, 48);
        for (size_t j = 0; j < i; j++)
            assert_false(tiles[i].m == tiles[j].m && tiles[i].n == tiles[j].n &&
                         tiles[i].stages == tiles[j].stages &&
                         tiles[i].warps == tiles[j].warps);
    }
}

static void test_tiles__shared_memory__is_counted_and_bounds(void **state) {
    (void)state;
    const lab_device l4 = device_of("l4"), a100 = device_of("a100");
    const lab_spec spec = spec_of("b1h8s512d128");
    /* Q 128 x 256 bytes, K and V twice 128 x 256 each: 160 KiB. */
    lab_tile tile = {.m = 128, .n = 128, .stages = 2, .warps = 8, .d_qk = 128, .d_v = 128};
    evaluate(&tile, &spec, &l4);
    assert_int_equal(tile.shared, 163840);
    assert_int_equal(tile.breaks, ATT_RESOURCE_SHARED);
    evaluate(&tile, &spec, &a100);
    assert_int_equal(tile.breaks, ATT_RESOURCE_NONE);
    assert_int_equal(tile.blocks, 1);
    /* O and S of 64 rows per warp alone are 256 + 128 registers. */
    tile = (lab_tile){.m = 64, .n = 64, .stages = 1, .warps = 1, .d_qk = 128, .d_v = 128};
    evaluate(&tile, &spec, &a100);
    assert_int_equal(tile.breaks, ATT_RESOURCE_REGISTERS);
}

/* A block may be allowed more than an SM has. */
static void test_tiles__no_block_on_an_sm__does_not_fit(void **state) {
    (void)state;
    lab_device l4 = device_of("l4");
    l4.limits.warps_per_sm = 3;
    const lab_spec spec = spec_of("b1h8s512d64");
    lab_tile tile = {.m = 64, .n = 64, .stages = 2, .warps = 4, .d_qk = 64, .d_v = 64};
    evaluate(&tile, &spec, &l4);
    assert_int_equal(tile.blocks, 0);
    assert_int_equal(tile.breaks, ATT_RESOURCE_WARPS);
}

static void test_tiles__waves_tail_and_use__are_counted(void **state) {
    (void)state;
    const lab_device l4 = device_of("l4");
    lab_tile tile = {.m = 64, .n = 64, .stages = 2, .warps = 4, .d_qk = 64, .d_v = 64};
    const lab_spec full = spec_of("b4h8s512d64");
    evaluate(&tile, &full, &l4);
    assert_true(near(tile.grid, 4.0 * 8 * 8 * tile.splits));
    assert_true(near(tile.waves, tile.grid / (58.0 * tile.blocks)));
    assert_true(tile.tail > 0.0 && tile.tail <= 1.0);
    assert_true(near(tile.useful, 1.0));
    /* Causal: of row block i the tiles 0 .. i, 36 of 64. */
    const lab_spec causal = spec_of("b4h8s512d64,causal");
    evaluate(&tile, &causal, &l4);
    assert_true(near(tile.useful, 512.0 * 513 / 2 / (36.0 * 64 * 64)));
    /* One row of 65 keys: two tiles of 64 x 64. */
    const lab_spec tail = spec_of("b1h1s1sk65d64");
    evaluate(&tile, &tail, &l4);
    assert_true(near(tile.useful, 65.0 / (2.0 * 64 * 64)));
    /* A window of 8 keys left of the diagonal: one or two tiles per row block. */
    const lab_spec window = spec_of("b1h1s512d64,causal,window=8:0");
    evaluate(&tile, &window, &l4);
    assert_true(near(tile.useful, (9.0 * 512 - 36) / (15.0 * 64 * 64)));
}

static void test_tiles__few_rows_of_a_group__are_packed_and_split(void **state) {
    (void)state;
    const lab_device h200 = device_of("h200");
    const lab_spec spec = spec_of("b1h32hkv8s1sk8192d128,bf16");
    lab_tile tile = {.m = 16, .n = 64, .stages = 2, .warps = 1, .d_qk = 128, .d_v = 128};
    evaluate(&tile, &spec, &h200);
    assert_true(tile.splits > 1);
    assert_true(near(tile.grid, 8.0 * tile.splits));
    assert_true(near(tile.useful, 4.0 / 16));
}

static void test_plan__no_prediction__is_under_the_floor(void **state) {
    (void)state;
    static const char *const names[] = {"a100", "a10", "l4", "rtx4090", "h100", "h200"};
    static const char *const problems[] = {"b1h8s512d64",
                                           "b2h16s8192d128,bf16",
                                           "b2h16s8192d128,bf16,causal",
                                           "b1h1s1d8",
                                           "b1h32hkv8s1sk8192d128,bf16",
                                           "b3h4s97sk301d80,varlen",
                                           "b64h32hkv8s1sk8192d128,bf16"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
            const lab_device device = device_of(names[n]);
            const lab_spec spec = spec_of(problems[i]);
            lab_plan_result plan;
            assert_true(lab_plan_make(&plan, &spec, &device, NULL, &why));
            assert_true(plan.fitting > 0);
            for (size_t t = 0; t < plan.fitting; t++) {
                assert_true(plan.tiles[t].seconds >= 0.999 * lab_floor_seconds(&plan.floor));
                assert_true(t == 0 || plan.tiles[t].seconds >= plan.tiles[t - 1].seconds);
                assert_true(plan.tiles[t].useful <= 1.000001);
                assert_true(plan.tiles[t].shared <= (uint32_t)device.limits.shared_per_block);
            }
            for (size_t t = plan.fitting; t < plan.tile_count; t++)
                assert_int_not_equal(plan.tiles[t].breaks, ATT_RESOURCE_NONE);
            lab_plan_free(&plan);
        }
}

static void test_plan__huge_problems__take_no_longer(void **state) {
    (void)state;
    static const char *const problems[] = {"b1h1s20000000d64,causal",
                                           "b1000000h64hkv1s1sk4000000000d128",
                                           "b1h1s10000000sk1d64", "b1h8s64d2000000000"};
    const lab_device device = device_of("l4");
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const lab_spec spec = spec_of(problems[i]);
        lab_plan_result plan;
        if (!lab_plan_make(&plan, &spec, &device, NULL, &why))
            assert_true(*why.text);
        else if (plan.fitting > 0)
            assert_true(plan.tiles[0].seconds >= 0.999 * lab_floor_seconds(&plan.floor));
        lab_plan_free(&plan);
    }
}

static void test_plan__problems_that_make_no_sense__are_refused(void **state) {
    (void)state;
    const lab_device device = device_of("l4");
    lab_spec spec = spec_of("b1h8hkv4s64d64");
    spec.problem.heads_kv = 3;
    lab_plan_result plan;
    assert_false(lab_plan_make(&plan, &spec, &device, NULL, &why));
    assert_non_null(strstr(why.text, "heads_kv"));
    lab_plan_free(&plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floor__of_the_l4__is_as_worked_out_by_hand),
        cmocka_unit_test(test_floor__causal__counts_what_is_visible),
        cmocka_unit_test(test_floor__float32__is_bound_by_three_products_of_terms),
        cmocka_unit_test(test_reach__is_never_under_the_floor),
        cmocka_unit_test(test_occupancy__known_cases),
        cmocka_unit_test(test_occupancy__agrees_with_nvidias_calculator),
        cmocka_unit_test(test_tiles__the_grid__has_every_combination_once),
        cmocka_unit_test(test_tiles__shared_memory__is_counted_and_bounds),
        cmocka_unit_test(test_tiles__no_block_on_an_sm__does_not_fit),
        cmocka_unit_test(test_tiles__waves_tail_and_use__are_counted),
        cmocka_unit_test(test_tiles__few_rows_of_a_group__are_packed_and_split),
        cmocka_unit_test(test_plan__no_prediction__is_under_the_floor),
        cmocka_unit_test(test_plan__huge_problems__take_no_longer),
        cmocka_unit_test(test_plan__problems_that_make_no_sense__are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
