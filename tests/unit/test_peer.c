/* test_peer.c: the cuBLAS peer on a fake driver and a fake cuBLAS: its calls, what it supports,
 * its messages when they fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "lab/subject/peer.h"
#include "lab/verify/verify.h"
#include "tests/support/fakes.h"

static fake_cuda *cuda;
static fake_cublas *blas;
static lab_peer peer;
static att_context *ctx;

static int open_all(void **state) {
    (void)state;
    const att_context_options options = {.size = sizeof options, .device = ATT_DEVICE_CUDA};
    lab_message why;
    cuda = use_fake_cuda();
    blas = use_fake_cublas();
    if (att_context_create(&ctx, &options) != ATT_OK)
        fail_msg("%s", att_last_error()->text);
    if (!lab_peer_load(&peer, CUBLAS_PEER, &why))
        fail_msg("%s", why.text);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    lab_peer_unload(&peer);
    att_context_destroy(ctx);
    return 0;
}

static lab_verify_result verify(const char *line) {
    lab_spec spec;
    lab_message why;
    lab_verify_result r;
    const lab_subject subject = lab_subject_peer(&peer, ctx);
    if (!lab_spec_parse(&spec, line, &why))
        fail_msg("%s", why.text);
    lab_verify_subject(&r, &subject, &spec, NULL);
    return r;
}

static void expect_message(const lab_verify_result *r, lab_outcome outcome, const char *words) {
    if (r->outcome != outcome || !strstr(r->message, words))
        fail_msg("\"%s\" does not say \"%s\"", r->message, words);
}

static void test_cublas__a_run__two_products_between_two_kernels(void **state) {
    (void)state;
    const int products = blas->products;
    const long launches = cuda->launches, libraries = cuda->libraries_live;
    const lab_verify_result r = verify("b2h4hkv2s70sk100d64,bf16,causal=bottom-right,lse");
    expect_message(&r, LAB_FAIL, "o["); /* nothing multiplies here */
    assert_string_equal(r.kernel, "cublas");
    assert_int_equal(blas->products - products, 3 * 2); /* two runs, and one captured */
    assert_int_equal(cuda->launches - launches, 3 * 2);
    assert_string_equal(cuda->kernel, "peer_cublas_softmax");
    assert_int_equal(cuda->libraries_live, libraries);
    assert_non_null(blas->stream);
    assert_non_null(blas->scratch);
    assert_int_equal((uintptr_t)blas->scratch % 256, 0);
    /* The newest first: O^T = V^T P^T, then S^T = K Q^T. */
    const fake_cublas_product *pv = &blas->last[0], *qk = &blas->last[1];
    assert_int_equal(qk->m, 100);
    assert_int_equal(qk->n, 70);
    assert_int_equal(qk->k, 64);
    assert_int_equal(qk->op_a, 1);
    assert_int_equal(qk->lda, 2 * 64);
    assert_int_equal(qk->ldb, 4 * 64);
    assert_int_equal(qk->ldc, 104);
    assert_int_equal(qk->type_a, 14);
    assert_int_equal(qk->type_c, 0);
    assert_int_equal(qk->count, 8);
    assert_int_equal(pv->m, 64);
    assert_int_equal(pv->n, 70);
    assert_int_equal(pv->k, 100);
    assert_int_equal(pv->op_a, 0);
    assert_int_equal(pv->lda, 2 * 64);
    assert_int_equal(pv->ldb, 104);
    assert_int_equal(pv->ldc, 4 * 64);
    assert_int_equal(pv->type_c, 14);
}

static void test_cublas__not_taken__field_named(void **state) {
    (void)state;
    static const char *const lines[][2] = {
        {"b1h2s64d64,f32", "supports: dtype:"},
        {"b1h2s64d64,fp16,o=f32", "supports: dtype_o:"},
        {"b1h2s64d64,fp16,alibi", "supports: features:"},
        {"b1h2s64d64,fp16,window=8:0,causal", "supports: window:"},
        {"b1h2s64d64,fp16,softcap=20", "supports: softcap:"},
        {"b1h2s64sk0d64,fp16", "supports: seq_q, seq_k, batch:"},
        {"b1h2s64d60,fp16", "supports: strides:"},
        {"b66000h1s1d64,fp16", "supports: batch:"},
        {"b8h32s8192sk8192d64,fp16", "supports: seq_k:"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const lab_verify_result r = verify(lines[i][0]);
        expect_message(&r, LAB_REFUSED, lines[i][1]);
        assert_int_equal(r.status, ATT_E_UNSUPPORTED);
    }
}

static void test_cublas__library_fails__said_and_given_back(void **state) {
    (void)state;
    const long libraries = cuda->libraries_live, memory = cuda->memory_live;
    blas->fail_call = "cublasCreate_v2";
    lab_verify_result r = verify("b1h2s64d64,fp16");
    expect_message(&r, LAB_FAIL, "prepare() failed with 13: cublasCreate failed");
    blas->fail_call = "cublasGemmBatchedEx";
    r = verify("b1h2s64d64,fp16");
    expect_message(&r, LAB_FAIL, "run() failed with 13");
    blas->fail_call = NULL;
    reset_fake_cuda(cuda);
    cuda->fail_call = "cuLibraryGetKernel";
    cuda->fail_code = CUDA_ERROR_INVALID_VALUE;
    r = verify("b1h2s64d64,fp16");
    expect_message(&r, LAB_FAIL, "prepare() failed with 1");
    reset_fake_cuda(cuda);
    assert_int_equal(cuda->libraries_live, libraries);
    assert_true(cuda->memory_live >= memory); /* the pool keeps what it has */
}

static void test_peer__cpu__not_its_device(void **state) {
    (void)state;
    const att_context_options options = {.size = sizeof options, .device = ATT_DEVICE_CPU};
    att_context *gpu = ctx;
    assert_int_equal(att_context_create(&ctx, &options), ATT_OK);
    const lab_verify_result r = verify("b1h2s64d64,fp16");
    expect_message(&r, LAB_REFUSED, "cublas: devices: it does not compute on the CPU");
    att_context_destroy(ctx);
    ctx = gpu;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cublas__a_run__two_products_between_two_kernels),
        cmocka_unit_test(test_cublas__not_taken__field_named),
        cmocka_unit_test(test_cublas__library_fails__said_and_given_back),
        cmocka_unit_test(test_peer__cpu__not_its_device),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
