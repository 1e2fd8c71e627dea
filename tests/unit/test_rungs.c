/* test_rungs.c: the steps of the ladder: what each refuses, its grid, and the launches of the
 * one made of cuBLAS. On a fake driver and a fake cuBLAS. */
#include <stdint.h>
#include <string.h>

#include "attention/cuda/rungs.h"
#include "attention/cuda/unfused.h"
#include "kernels/unfused_params.h"
#include "tests/fake_cuda/fake_tables.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"

static fake_cuda *fake;
static fake_cublas *blas;

static att_cuda_kernel rung(const char *source) {
    att_cuda_kernel row = fake_all;
    row.source = source;
    row.role = ATT_ROLE_RUNG;
    row.d_qk = row.d_v = 64;
    row.tile_m = row.tile_n = 64;
    return row;
}

static att_problem problem(void) {
    att_problem p;
    att_problem_init(&p, 2, 4, 2, 100, 70, 64, 64, ATT_F16);
    return p;
}

static void assert_refused(const char *source, const att_problem *p, const char *field,
                           const char *word) {
    const att_cuda_kernel row = rung(source);
    const char *at_fault = NULL;
    const unsigned asks = gpu_family_of(source)->asks;
    const char *why = att_cuda_rung_refusal(asks, &row, p, &at_fault);
    if (!field) {
        if (why)
            fail_msg("%s refuses %s: %s", source, at_fault, why);
        assert_null(at_fault);
        return;
    }
    if (!why)
        fail_msg("%s does not refuse %s", source, field);
    assert_string_equal(at_fault, field);
    if (!strstr(why, word))
        fail_msg("%s: \"%s\" does not say \"%s\"", source, why, word);
}

/* A rung and a problem planned for it on a GPU. */
typedef struct cut_rung {
    att_cuda_kernel kernel;
    att_kernel_row row;
    gpu_plan plan;
} cut_rung;

static att_status cut_on(cut_rung *out, int device, const char *source, const att_problem *p) {
    fake->kernel_params = strcmp(source, "unfused") == 0 ? sizeof(att_unfused_params) : 0;
    out->kernel = rung(source);
    out->row = gpu_row_of(&out->kernel);
    assert_ptr_equal(out->row.family->cut, att_cuda_rung_cut);
    return gpu_plan_cut(&out->plan, device, &out->row, p);
}

static void cut(cut_rung *out, const char *source, const att_problem *p) {
    assert_ok(cut_on(out, 0, source, p));
}

static const att_args no_args = {.size = sizeof no_args};

/* Comes first: the library searches for cuBLAS until it finds one. */
static void test_refusal__no_cublas__unfused_alone(void **state) {
    (void)state;
    const att_problem p = problem();
    use_no_cublas();
    assert_refused("unfused", &p, "kernel", "cuBLAS is not found");
    cut_rung r;
    assert_fails(cut_on(&r, 0, "unfused", &p), ATT_E_UNSUPPORTED, "kernel",
                 "cuBLAS is not found");
    blas = use_fake_cublas();
    assert_refused("unfused", &p, NULL, "");
}

static void test_refusal__changed_scores__all_but_naive(void **state) {
    (void)state;
    static const char *const sources[] = {"tiled", "vector", "unfused", "mma", "mma_async"};
    static const struct {
        uint32_t feature;
        const char *word;
    } features[] = {
        {ATT_ALIBI, "ALiBi"}, {ATT_BIAS, "bias"}, {ATT_SINKS, "sinks"}, {ATT_PAGED, "pages"}};
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        att_problem p = problem();
        assert_refused(sources[i], &p, NULL, "");
        p.softcap = 5.0f;
        assert_refused(sources[i], &p, "softcap", "softcap");
        for (size_t f = 0; f < sizeof features / sizeof features[0]; f++) {
            p = problem();
            p.features |= features[f].feature;
            assert_refused(sources[i], &p, "features", features[f].word);
            assert_refused("naive", &p, NULL, "");
        }
    }
}

static void test_refusal__rows_off_16_bytes__those_that_move_16(void **state) {
    (void)state;
    static const char *const sources[] = {"vector", "mma", "mma_async"};
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        att_problem p = problem();
        p.dtype_o = ATT_F32;
        assert_refused(sources[i], &p, "dtype_o", "type of Q");
        assert_refused("tiled", &p, NULL, "");
        p = problem();
        p.d_qk = 60;
        assert_refused(sources[i], &p, "d_qk", "multiple of 8");
        p = problem();
        p.d_v = 60;
        assert_refused(sources[i], &p, "d_v", "multiple of 8");
        p = problem();
        p.k.row += 2;
        assert_refused(sources[i], &p, "k", "16 bytes");
        assert_refused("naive", &p, NULL, "");
    }
}

static void test_refusal__what_cublas_does_not_take__field_named(void **state) {
    (void)state;
    att_problem p = problem();
    p.features |= ATT_LENS_K;
    assert_refused("unfused", &p, "features", "lengths");
    assert_refused("tiled", &p, NULL, "");
    p = problem();
    p.features |= ATT_STARTS_K;
    assert_refused("unfused", &p, "features", "lengths");
    assert_refused("tiled", &p, NULL, "");
    p = problem();
    p.batch = 40000;
    assert_refused("unfused", &p, "batch", "65535");
    p = problem();
    p.alignment = 2;
    assert_refused("unfused", &p, "alignment", "16 bytes");
    p = problem();
    p.q.row = 0;
    assert_refused("unfused", &p, "q", "row stride");
    p = problem();
    p.k.row = (int64_t)1 << 40;
    assert_refused("unfused", &p, "k", "row stride");
    p = problem();
    p.v.row = 8;
    assert_refused("unfused", &p, "v", "row stride");
    p.seq_k = 1; /* a single row has no stride */
    assert_refused("unfused", &p, NULL, "");
    p = problem();
    p.seq_q = p.seq_k = 100000;
    assert_refused("unfused", &p, "seq_k", "2 GiB");
}

static void test_refusal__more_blocks_than_a_grid__batch_named(void **state) {
    (void)state;
    att_problem p = problem();
    p.batch = 1 << 15;
    p.seq_q = 1 << 25;
    assert_refused("naive", &p, "batch", "grid");
}

static void test_tiling__blocks__all_along_x(void **state) {
    (void)state;
    const att_problem p = problem();
    cut_rung r;
    cut(&r, "mma_async", &p);
    assert_int_equal(r.plan.tiling.params.row_blocks, 2);
    assert_int_equal(r.plan.tiling.params.splits, 1);
    assert_int_equal(r.plan.tiling.shape.grid[0], 2 * 4 * 2);
    assert_int_equal(r.plan.tiling.shape.grid[1], 1);
    assert_int_equal(r.plan.tiling.shape.threads, 128);
    assert_int_equal(r.plan.tiling.shape.shared, (64 + 2 * 2 * 64) * 128);
    assert_int_equal(r.plan.workspace, 0);
    assert_null(r.plan.tiling.cublas);
    fake->launches = 0;
    assert_ok(gpu_plan_run(&r.plan, &no_args, NULL, NULL));
    assert_int_equal(fake->launches, 1);
    assert_int_equal(fake->params_bytes, sizeof(att_fwd_params));
    assert_int_equal(fake->config.gridDimX, 16);
}

static void test_tiling__more_shared_memory_than_a_block_has_unasked__allowed(void **state) {
    (void)state;
    const att_problem p = problem();
    cut_rung r;
    cut(&r, "vector", &p);
    assert_int_equal(r.plan.tiling.shape.shared, 68608);
    assert_int_equal(fake->shared_allowed, 68608);
}

static void test_run__no_rows__nothing_launched(void **state) {
    (void)state;
    att_problem p = problem();
    p.batch = 0;
    cut_rung r;
    cut(&r, "naive", &p);
    fake->launches = 0;
    assert_ok(gpu_plan_run(&r.plan, &no_args, NULL, NULL));
    assert_int_equal(fake->launches, 0);
}

/* An address in device memory; any will do for a fake driver. */
static void *const somewhere = (void *)(uintptr_t)0x10040;

static void test_unfused__run__three_launches_two_products(void **state) {
    (void)state;
    const att_problem p = problem();
    cut_rung r;
    cut(&r, "unfused", &p);
    assert_non_null(r.plan.tiling.cublas);
    const int heads = 8, pitch = 72;
    assert_true(r.plan.workspace >= (size_t)(heads * 100 * (pitch * 6 + 64 * 4)));
    assert_int_equal(r.plan.workspace, att_cuda_unfused_workspace(&p));
    const att_args args = {.size = sizeof args, .q = somewhere};
    fake->launches = 0;
    blas->products = 0;
    void *stream = (void *)(uintptr_t)2;
    assert_ok(gpu_plan_run(&r.plan, &args, somewhere, stream));
    assert_int_equal(fake->launches, 3);
    assert_int_equal(blas->products, 2);
    assert_ptr_equal(blas->stream, stream);
    assert_int_equal((uintptr_t)blas->scratch % 256, 0);
    assert_true((uintptr_t)blas->scratch >= (uintptr_t)somewhere);

    att_unfused_params u;
    assert_int_equal(fake->params_bytes, sizeof u);
    memcpy(&u, fake->params, sizeof u);
    assert_int_equal(u.phase, ATT_UNFUSED_FINISH);
    assert_int_equal(u.pitch, pitch);
    assert_ptr_equal(u.fwd.q, somewhere);
    assert_true((char *)(u.pointers + (size_t)(6 * heads)) <=
                (char *)somewhere + r.plan.workspace);

    const fake_cublas_product *scores = &blas->last[1], *output = &blas->last[0];
    assert_int_equal(scores->op_a, 1);
    assert_int_equal(scores->m, 70);
    assert_int_equal(scores->n, 100);
    assert_int_equal(scores->k, 64);
    assert_int_equal(scores->lda, 2 * 64);
    assert_int_equal(scores->ldb, 4 * 64);
    assert_int_equal(scores->ldc, pitch);
    assert_int_equal(scores->type_a, 2);
    assert_int_equal(scores->count, heads);
    assert_ptr_equal(scores->b, u.pointers);
    assert_int_equal(output->op_a, 0);
    assert_int_equal(output->m, 64);
    assert_int_equal(output->k, 70);
    assert_int_equal(output->ldb, pitch);
    assert_ptr_equal(output->c, u.pointers + (size_t)(5 * heads));
}

static void test_unfused__one_row_one_key__strides_not_looked_at(void **state) {
    (void)state;
    att_problem p = problem();
    p.seq_q = p.seq_k = 1;
    p.dtype = ATT_F32;
    p.q.row = p.k.row = p.v.row = 0;
    cut_rung r;
    cut(&r, "unfused", &p);
    assert_ok(gpu_plan_run(&r.plan, &no_args, somewhere, NULL));
    assert_int_equal(blas->last[1].lda, 64);
    assert_int_equal(blas->last[1].ldb, 64);
    assert_int_equal(blas->last[0].lda, 64);
    assert_int_equal(blas->last[0].type_a, 0);
}

static void test_unfused__no_keys__no_products(void **state) {
    (void)state;
    att_problem p = problem();
    p.seq_k = 0;
    p.dtype = ATT_BF16;
    cut_rung r;
    cut(&r, "unfused", &p);
    fake->launches = 0;
    blas->products = 0;
    assert_ok(gpu_plan_run(&r.plan, &no_args, somewhere, NULL));
    assert_int_equal(fake->launches, 3);
    assert_int_equal(blas->products, 0);
}

static void test_unfused__each_call_failing__call_named(void **state) {
    (void)state;
    static const char *const calls[] = {"cublasSetStream_v2", "cublasSetWorkspace_v2",
                                        "cublasGemmBatchedEx"};
    const att_problem p = problem();
    cut_rung r;
    cut(&r, "unfused", &p);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        blas->fail_call = calls[i];
        assert_int_equal(gpu_plan_run(&r.plan, &no_args, somewhere, NULL), ATT_E_CUDA);
        assert_non_null(strstr(att_last_error()->text, "status 13"));
    }
    blas->fail_call = NULL;
    reset_fake_cuda(fake);
    for (fake->fail_at = 1, fake->fail_code = CUDA_ERROR_LAUNCH_FAILED;; fake->fail_at++) {
        fake->calls = 0;
        if (gpu_plan_run(&r.plan, &no_args, somewhere, NULL) == ATT_OK)
            break;
        assert_int_equal(att_last_error()->status, ATT_E_CUDA);
    }
    assert_true(fake->fail_at > 5);
    reset_fake_cuda(fake);
}

/* A separate device: a handle stays once it is made. */
static void test_cublas_open__handle_refused__status_then_works(void **state) {
    (void)state;
    const att_problem p = problem();
    cut_rung r;
    blas->fail_call = "cublasCreate_v2";
    assert_int_equal(cut_on(&r, 1, "unfused", &p), ATT_E_CUDA);
    blas->fail_call = NULL;
    blas->handles = 0;
    assert_ok(cut_on(&r, 1, "unfused", &p));
    assert_ok(cut_on(&r, 1, "unfused", &p));
    assert_int_equal(blas->handles, 1);
}

int main(void) {
    fake = use_fake_cuda();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusal__no_cublas__unfused_alone),
        cmocka_unit_test(test_refusal__changed_scores__all_but_naive),
        cmocka_unit_test(test_refusal__rows_off_16_bytes__those_that_move_16),
        cmocka_unit_test(test_refusal__what_cublas_does_not_take__field_named),
        cmocka_unit_test(test_refusal__more_blocks_than_a_grid__batch_named),
        cmocka_unit_test(test_tiling__blocks__all_along_x),
        cmocka_unit_test(test_tiling__more_shared_memory_than_a_block_has_unasked__allowed),
        cmocka_unit_test(test_run__no_rows__nothing_launched),
        cmocka_unit_test(test_unfused__run__three_launches_two_products),
        cmocka_unit_test(test_unfused__one_row_one_key__strides_not_looked_at),
        cmocka_unit_test(test_unfused__no_keys__no_products),
        cmocka_unit_test(test_unfused__each_call_failing__call_named),
        cmocka_unit_test(test_cublas_open__handle_refused__status_then_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
