/* test_api_gpu.c: contexts, plans and runs on a GPU, and the laboratory on its memory, through
 * a fake driver.
 *
 * The fake driver's memory is host memory, and a launch calls compute() below, which returns
 * the kernel's result: the CPU engine's answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "lab/measure/bench.h"
#include "lab/tensors/device_memory.h"
#include "lab/verify/verify.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"

static fake_cuda *fake;
static att_context *cpu;
static att_problem current; /* the problem of the next launch */

typedef enum misdeed { HONEST, WRONG, NOTHING, OUT_OF_BOUNDS, CHANGES_K } misdeed;
static misdeed deed;

static void compute(const char *kernel, const CUlaunchConfig *config, const void *params,
                    size_t bytes) {
    (void)config;
    const att_fwd_params *f = fake_forward_params(params, bytes);
    if (strncmp(kernel, "combine", 7) == 0 || !f || deed == NOTHING)
        return; /* the first launch has computed the whole answer */
    const att_args args = {.size = sizeof args,
                           .q = f->q,
                           .k = f->k,
                           .v = f->v,
                           .o = f->o,
                           .lse = f->lse,
                           .alibi = f->alibi,
                           .bias = f->bias,
                           .sinks = f->sinks,
                           .cu_seqlens_q = f->cu_seqlens_q,
                           .cu_seqlens_k = f->cu_seqlens_k,
                           .lens_k = f->lens_k,
                           .page_table = f->page_table,
                           .starts_k = f->starts_k};
    if (deed == CHANGES_K)
        ((unsigned char *)(uintptr_t)f->k)[3] = 0x11;
    att_plan *plan;
    assert_ok(att_plan_create(&plan, cpu, &current));
    void *workspace = aligned_alloc(ATT_WORKSPACE_ALIGN, att_plan_workspace(plan) + 64);
    assert_ok(att_plan_run(plan, &args, workspace, NULL));
    free(workspace);
    att_plan_destroy(plan);
    if (deed == WRONG)
        ((unsigned short *)f->o)[0] ^= 0x3000;
    if (deed == OUT_OF_BOUNDS)
        ((unsigned char *)f->o)[-1] = 0;
}

static int set_up(void **state) {
    (void)state;
    fake = use_fake_cuda();
    use_fake_nvrtc();
    setenv("ATTEST_LIBCUBLAS", "/nonexistent/libcublas.so",
           1); /* a real cuBLAS needs a real GPU */
    const att_context_options options = {
        .size = sizeof options, .device = ATT_DEVICE_CPU, .threads = 1};
    assert_ok(att_context_create(&cpu, &options));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    att_context_destroy(cpu);
    return 0;
}

static int before_each(void **state) {
    (void)state;
    static const char *const variables[] = {"ATTEST_DEVICE", "ATTEST_KERNEL",
                                            "ATTEST_ALLOW_SLOW", "ATTEST_LAB_EXACT"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    reset_fake_cuda(fake);
    fake->run = NULL;
    fake->memory_type = CU_MEMORYTYPE_DEVICE;
    fake->memory_managed = fake->memory_device = 0;
    deed = HONEST;
    return 0;
}

static att_context_options gpu_options(void) {
    return (att_context_options){
        .size = sizeof(att_context_options), .device = ATT_DEVICE_CUDA, .cache_dir = ""};
}

static att_context *open_gpu(uint32_t flags, const char *kernel) {
    att_context_options options = gpu_options();
    options.flags = flags;
    options.kernel = kernel;
    att_context *ctx = NULL;
    assert_ok(att_context_create(&ctx, &options));
    return ctx;
}

/* -------------------------------------------------------------------- contexts */

static void test_context__gpu__described(void **state) {
    (void)state;
    att_context *ctx = open_gpu(0, NULL);
    att_context_info info = {.size = sizeof info};
    assert_ok(att_context_query(ctx, &info));
    assert_int_equal(info.device, ATT_DEVICE_CUDA);
    assert_int_equal(info.device_index, 0);
    assert_int_equal(info.compute_capability, 90);
    assert_int_equal(info.multiprocessors, 132);
    assert_int_equal(info.driver_version, 13000);
    assert_true(info.memory_bytes == (int64_t)1 << 32);
    assert_string_equal(info.gpu_name, "Fake GPU 0");
    assert_int_equal(strlen(info.gpu_uuid), 40);
    assert_int_equal(info.isa, ATT_ISA_AUTO);
    assert_int_equal(info.threads, 0);
    assert_true(info.name[0] != '\0');
    att_context_destroy(ctx);
}

static void test_context__auto__first_gpu_that_will_do(void **state) {
    (void)state;
    att_context *ctx;
    att_context_info info = {.size = sizeof info};
    assert_ok(att_context_create(&ctx, NULL));
    assert_ok(att_context_query(ctx, &info));
    assert_int_equal(info.device, ATT_DEVICE_CUDA);
    assert_int_equal(info.device_index, 0);
    att_context_destroy(ctx);
    setenv("ATTEST_DEVICE", "cuda:1", 1);
    assert_ok(att_context_create(&ctx, NULL));
    assert_ok(att_context_query(ctx, &info));
    assert_int_equal(info.device_index, 1);
    assert_int_equal(info.compute_capability, 89);
    att_context_destroy(ctx);
    setenv("ATTEST_DEVICE", "cpu", 1);
    assert_ok(att_context_create(&ctx, NULL));
    assert_ok(att_context_query(ctx, &info));
    assert_int_equal(info.device, ATT_DEVICE_CPU);
    att_context_destroy(ctx);
}

static void test_context__gpu_too_old_or_absent__device_error(void **state) {
    (void)state;
    att_context_options options = gpu_options();
    att_context *ctx;
    options.device_index = 3;
    assert_fails(att_context_create(&ctx, &options), ATT_E_DEVICE, "device_index", "7.5");
    options.device_index = 4;
    assert_fails(att_context_create(&ctx, &options), ATT_E_DEVICE, "device_index", "4");
    options.device_index = -1;
    assert_fails(att_context_create(&ctx, &options), ATT_E_DEVICE, "device_index", "-1");
}

static void test_context__auto__gpu_out_of_order__error_not_the_cpu(void **state) {
    (void)state;
    att_context *ctx;
    fake->devices = 0;
    assert_ok(att_context_create(&ctx, NULL));
    att_context_info info = {.size = sizeof info};
    assert_ok(att_context_query(ctx, &info));
    assert_int_equal(info.device, ATT_DEVICE_CPU);
    att_context_destroy(ctx);
    fake->devices = FAKE_DEVICES;
}

static void test_kernel_query__gpu__origin_and_tile(void **state) {
    (void)state;
    att_context *ctx = open_gpu(0, NULL);
    size_t available = 0;
    for (size_t i = 0; i < att_kernel_count(); i++) {
        att_kernel_info k = {.size = sizeof k};
        assert_ok(att_kernel_query(ctx, i, &k));
        if (k.device != ATT_DEVICE_CUDA) {
            assert_int_equal(k.available, 0);
            continue;
        }
        available += (size_t)k.available;
        assert_true(!k.available || k.origin != ATT_FROM_NOWHERE);
        assert_true(k.tile_m >= 1 && k.tile_n >= 1);
        assert_true(k.d_qk >= 1 || strcmp(k.operation, "moe") == 0);
    }
    assert_true(available > 0);
    att_context_destroy(ctx);
}

/* ----------------------------------------------------------------------- plans */

static void test_plan__gpu__explains_grid_and_workspace(void **state) {
    (void)state;
    att_context *ctx = open_gpu(0, NULL);
    att_problem p;
    att_problem_init(&p, 2, 8, 8, 512, 512, 64, 64, ATT_F16);
    att_plan *plan;
    assert_ok(att_plan_create(&plan, ctx, &p));
    char text[ATT_EXPLAIN_MAX], again[ATT_EXPLAIN_MAX];
    assert_ok(att_plan_explain(plan, text, sizeof text));
    assert_ok(att_context_explain(ctx, &p, again, sizeof again));
    assert_string_equal(text, again);
    assert_non_null(strstr(text, "grid "));
    assert_non_null(strstr(text, att_plan_kernel(plan)));
    assert_null(strstr(text, "_cpu_"));
    att_plan_destroy(plan);
    att_context_destroy(ctx);
}

static void test_plan__gpu__rung_needs_leave(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 2, 8, 8, 512, 512, 64, 64, ATT_F32);
    att_plan *plan;
    const char *rung = "naive_sm80";
    att_context *strict = open_gpu(0, rung), *lenient = open_gpu(ATT_ALLOW_SLOW, rung);
    assert_fails(att_plan_create(&plan, strict, &p), ATT_E_UNSUPPORTED, "flags",
                 "ATT_ALLOW_SLOW");
    assert_ok(att_plan_create(&plan, lenient, &p));
    att_plan_destroy(plan);
    att_context_destroy(strict);
    att_context_destroy(lenient);
    setenv("ATTEST_ALLOW_SLOW", "1", 1);
    att_context *by_environment = open_gpu(0, rung);
    assert_ok(att_plan_create(&plan, by_environment, &p));
    att_plan_destroy(plan);
    att_context_destroy(by_environment);
}

static void test_context__kernel_of_the_other_device__named(void **state) {
    (void)state;
    att_context_options options = gpu_options();
    options.kernel = "fwd_cpu_portable";
    att_context *ctx;
    assert_fails(att_context_create(&ctx, &options), ATT_E_ARG, "kernel", "fwd_cpu_portable");
}

/* Whichever driver call fails while a plan is made, the failure is reported, nothing is leaked,
 * and the next plan works. */
static void test_plan__nth_driver_call_fails__clear_status_no_leak(void **state) {
    (void)state;
    att_context *ctx = open_gpu(0, NULL);
    att_problem p;
    att_problem_init(&p, 1, 1, 1, 100, 5000, 40, 40, ATT_BF16);
    for (long n = 1; n < 200; n++) {
        att_plan *plan = NULL;
        reset_fake_cuda(fake);
        fake->fail_at = n;
        fake->fail_code = CUDA_ERROR_LAUNCH_FAILED;
        const long live = att_alloc_live();
        const att_status status = att_plan_create(&plan, ctx, &p);
        const bool reached = fake->failed_call[0] != '\0';
        att_plan_destroy(plan);
        if (!reached) {
            assert_int_equal(status, ATT_OK);
            att_context_destroy(ctx);
            return;
        }
        if (status != ATT_OK) {
            assert_int_equal(status, ATT_E_CUDA);
            assert_int_equal(att_last_error()->cuda_code, CUDA_ERROR_LAUNCH_FAILED);
            assert_null(plan);
        }
        (void)live;
    }
    fail_msg("a plan takes more than 200 driver calls");
}

/* ------------------------------------------------------------------------ runs */

/* A problem with its tensors on the fake GPU, a plan, and the arguments of a run. */
typedef struct bench_top {
    lab_spec spec;
    lab_tensors *tensors;
    lab_buffer workspace;
    lab_mirror mirror;
    att_plan *plan;
    att_context *ctx;
} bench_top;

static void lay_out_with(bench_top *t, const char *line, uint32_t flags) {
    lab_message why;
    memset(t, 0, sizeof *t);
    assert_true(lab_spec_parse(&t->spec, line, &why));
    t->ctx = open_gpu(flags, NULL);
    assert_ok(att_plan_create(&t->plan, t->ctx, &t->spec.problem));
    assert_true(lab_tensors_create(&t->tensors, &t->spec, 1, &why));
    assert_true(lab_workspace_create(&t->workspace, att_plan_workspace(t->plan), &why));
    assert_true(lab_mirror_tensors(&t->mirror, t->ctx, t->tensors, &t->workspace, &why));
    assert_true(t->mirror.gpu && t->mirror.stream && t->mirror.args.q != t->tensors->args.q);
}

static void lay_out(bench_top *t, const char *line) {
    lay_out_with(t, line, ATT_ALLOW_SLOW);
}

static void clear_away(bench_top *t) {
    lab_mirror_close(&t->mirror);
    lab_workspace_destroy(&t->workspace);
    lab_tensors_destroy(t->tensors);
    att_plan_destroy(t->plan);
    att_context_destroy(t->ctx);
}

static att_status run(const bench_top *t, const att_args *args) {
    return att_plan_run(t->plan, args, t->mirror.workspace, t->mirror.stream);
}

/* Memory is wiped after a problem; the tensors of the next one, in the same memory, must not
 * be. */
static void test_mirror__memory_that_another_left__holds_what_was_copied(void **state) {
    (void)state;
    bench_top t;
    lab_message why;
    for (int i = 0; i < 2; i++) {
        lay_out(&t, "b2h4s200d64,fp16");
        assert_true(lab_mirror_download_inputs(&t.mirror, &why));
        assert_true(lab_tensors_check(t.tensors, &why));
        clear_away(&t);
    }
}

static void test_run__gpu__launched_with_its_pointers(void **state) {
    (void)state;
    bench_top t;
    lay_out(&t, "b2h4s200d64,fp16,causal,lse");
    att_launch launch = {0};
    att_args a = t.mirror.args;
    a.launch = &launch;
    fake->launches = 0;
    assert_ok(run(&t, &a));
    assert_true(fake->launches >= 1);
    assert_string_equal(launch.kernel, att_plan_kernel(t.plan));
    assert_int_equal(strlen(launch.code_sha256), 64);
    assert_true(launch.registers > 0 && launch.grid[0] > 0 && launch.block[0] > 0);
    const att_fwd_params *f = fake_forward_params(fake->params, fake->params_bytes);
    assert_non_null(f);
    assert_ptr_equal(f->q, a.q);
    assert_ptr_equal(f->o, a.o);
    assert_ptr_equal(f->lse, a.lse);
    assert_int_equal(f->seq_q, 200);
    assert_ptr_equal((void *)fake->config.hStream, t.mirror.stream);
    clear_away(&t);
}

static void test_run__gpu_bad_addresses__named_and_not_launched(void **state) {
    (void)state;
    bench_top t;
    lay_out(&t, "b2h4s200d64,fp16,varlen,lse");
    fake->launches = 0;
    att_args a = t.mirror.args;
    a.k = NULL;
    assert_fails(run(&t, &a), ATT_E_ARG, "k", "NULL");
    a = t.mirror.args;
    a.v = (const char *)a.v + 2;
    assert_fails(run(&t, &a), ATT_E_ARG, "v", "16");
    a = t.mirror.args;
    a.o = (void *)(uintptr_t)a.q;
    assert_fails(run(&t, &a), ATT_E_ALIAS, "o", "q");
    a = t.mirror.args;
    fake->memory_type = 0;
    assert_fails(run(&t, &a), ATT_E_ARG, "o", "host memory");
    fake->memory_type = CU_MEMORYTYPE_DEVICE;
    fake->memory_device = 1;
    assert_fails(run(&t, &a), ATT_E_ARG, "o", "GPU 1");
    fake->memory_managed = 1;
    assert_ok(run(&t, &a)); /* managed memory may be anywhere */
    fake->memory_managed = 0;
    fake->memory_type = CU_MEMORYTYPE_HOST;
    assert_ok(run(&t, &a)); /* host memory that the driver knows */
    fake->fail_call = "cuPointerGetAttribute";
    fake->fail_code = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_fails(run(&t, &a), ATT_E_CUDA, "", "cuPointerGetAttributes");
    reset_fake_cuda(fake);
    fake->memory_type = CU_MEMORYTYPE_DEVICE;
    fake->fail_at = 3; /* an unknown address, detected after two calls */
    fake->fail_code = CUDA_ERROR_INVALID_VALUE;
    assert_fails(run(&t, &a), ATT_E_ARG, "o", "host memory");
    clear_away(&t);
}

/* Strides of an empty problem are ignored, so nothing may be computed from them either. */
static void test_merge_plan__empty_and_huge_strides__served(void **state) {
    (void)state;
    att_context *ctx = open_gpu(ATT_ALLOW_UNATTESTED, NULL);
    att_merge_problem p;
    att_plan *plan;
    att_merge_problem_init(&p, 2, 0, 4, 5, 64, ATT_F16);
    p.part_o.head = p.o.row = INT64_MAX - 15;
    assert_ok(att_merge_plan_create(&plan, ctx, &p));
    att_plan_destroy(plan);
    att_context_destroy(ctx);
}

/* Checks that need no driver are still made. */
static void test_run__gpu_pointers_trusted__the_driver_is_not_asked(void **state) {
    (void)state;
    bench_top t;
    lay_out_with(&t, "b2h4s200d64,fp16,varlen,lse", ATT_TRUST_POINTERS);
    fake->fail_call = "cuPointerGetAttribute";
    fake->fail_code = CUDA_ERROR_ILLEGAL_ADDRESS;
    att_args a = t.mirror.args;
    assert_ok(run(&t, &a));
    a.k = NULL;
    assert_fails(run(&t, &a), ATT_E_ARG, "k", "NULL");
    clear_away(&t);
}

static void test_run__gpu_workspace__checked(void **state) {
    (void)state;
    bench_top t;
    lay_out(&t, "b1h1s1sk20000d64,fp16");
    const size_t bytes = att_plan_workspace(t.plan);
    assert_true(bytes > 0);
    att_args a = t.mirror.args;
    assert_fails(att_plan_run(t.plan, &a, NULL, NULL), ATT_E_WORKSPACE, "workspace", "NULL");
    assert_fails(att_plan_run(t.plan, &a, (char *)t.mirror.workspace + 8, NULL),
                 ATT_E_WORKSPACE, "workspace", "aligned");
    a.workspace_size = bytes - 1;
    assert_fails(run(&t, &a), ATT_E_WORKSPACE, "workspace_size", "needed");
    a.workspace_size = bytes;
    assert_ok(run(&t, &a));
    clear_away(&t);
}

static void test_run__gpu_launch_fails__said_and_the_next_works(void **state) {
    (void)state;
    bench_top t;
    lay_out(&t, "b1h2s64d64,bf16");
    fake->fail_call = "cuLaunchKernelEx";
    fake->fail_code = CUDA_ERROR_LAUNCH_FAILED;
    assert_fails(run(&t, &t.mirror.args), ATT_E_CUDA, "", "cuLaunchKernelEx");
    assert_int_equal(att_last_error()->cuda_code, CUDA_ERROR_LAUNCH_FAILED);
    reset_fake_cuda(fake);
    assert_ok(run(&t, &t.mirror.args));
    clear_away(&t);
}

/* --------------------------------------------------------------- the laboratory */

static void verify(lab_verify_result *result, const char *line) {
    lab_spec spec;
    lab_message why;
    assert_true(lab_spec_parse(&spec, line, &why));
    current = spec.problem;
    fake->run = compute;
    att_context *ctx = open_gpu(ATT_ALLOW_SLOW, NULL);
    lab_verify_spec(result, ctx, &spec, NULL);
    att_context_destroy(ctx);
}

/* Every property of a problem reaches the kernel. */
static void test_lab__every_feature__verified_on_the_gpu(void **state) {
    (void)state;
    static const char *const lines[] = {
        "b2h4s100d64,fp16,causal,lse",
        "b2h4hkv2s3sk70d64,bf16,lse",
        "b1h2s70d40,f32,lse",
        "b2h4s60d64,fp16,softcap=20,alibi=b,sinks,bias=bf16:b1qk,causal,lse",
        "b3h4hkv2s60sk90d64,bf16,varlen,causal=bottom-right,lse",
        "b3h4hkv2s2sk100d64,fp16,lensk,paged=16,lse",
        "b2h4s70d64,bf16,layout=packed,pad=8,causal",
        "b2h2s60d64,fp16,offset=3,pad=1,lse",
        "b2h2s0sk64d64,fp16,lse",
        "b0h2s64d64,fp16",
        "b1h1s3sk5d64,fp16,pad=67108864,data=sparse", /* far apart: only touched pages are
                                                       * copied */
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        for (int exact = 0; exact < 2; exact++) {
            lab_verify_result r;
            setenv("ATTEST_LAB_EXACT", exact ? "1" : "0", 1);
            verify(&r, lines[i]);
            if (r.outcome != LAB_PASS)
                fail_msg("%s: %s", lines[i], r.message);
        }
}

static void test_lab__misdeeds_on_the_gpu__caught(void **state) {
    (void)state;
    static const struct {
        misdeed deed;
        const char *words;
    } deeds[] = {
        {WRONG, "o["}, {NOTHING, "o["}, {OUT_OF_BOUNDS, "beside"}, {CHANGES_K, "k: an"}};
    for (size_t i = 0; i < sizeof deeds / sizeof deeds[0]; i++) {
        lab_verify_result r;
        deed = deeds[i].deed;
        verify(&r, "b1h2s64d64,fp16,causal");
        assert_int_equal(r.outcome, LAB_FAIL);
        if (!strstr(r.message, deeds[i].words))
            fail_msg("\"%s\" does not say \"%s\"", r.message, deeds[i].words);
    }
}

/* An error of the driver is a failure, both when planning and when running: only unsupported
 * problems are refused. */
static void test_lab__driver_fails__said(void **state) {
    (void)state;
    static const struct {
        const char *call, *problem;
    } calls[] = {
        {"cuMemAlloc", "b1h2s64d64,fp16,causal"},
        {"cuStreamCreate", "b1h2s64d64,fp16,causal"},
        {"cuMemcpyHtoD", "b1h2s64d64,fp16,causal"},
        {"cuMemcpyDtoH", "b1h2s64d64,fp16,causal"},
        {"cuLibraryLoadData", "b1h2s64d240,bf16,softcap=20"}, /* a kernel that is not loaded
                                                               * yet */
    };
    setenv("ATTEST_LAB_EXACT", "1", 1); /* nothing from the pool */
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        lab_verify_result r;
        reset_fake_cuda(fake);
        fake->fail_call = calls[i].call;
        fake->fail_code = CUDA_ERROR_OUT_OF_MEMORY;
        const long live = fake->memory_live, streams = fake->streams_live;
        verify(&r, calls[i].problem);
        if (r.outcome != LAB_FAIL || r.message[0] == '\0')
            fail_msg("%s: %d: %s", calls[i].call, (int)r.outcome, r.message);
        assert_int_equal(fake->memory_live, live);
        assert_int_equal(fake->streams_live, streams);
    }
}

static void test_bench__gpu__times_a_graph_and_gives_it_back(void **state) {
    (void)state;
    lab_spec spec;
    lab_message why;
    assert_true(lab_spec_parse(&spec, "b1h2s64d64,fp16", &why));
    current = spec.problem;
    fake->run = compute;
    lab_bench_case c = {.spec = &spec, .subject = lab_subject_attest(open_gpu(0, NULL))};
    const lab_bench_options options = {.min_samples = 3, .max_samples = 4};
    const long graphs = fake->graphs_live, events = fake->events_live;
    assert_true(lab_bench_run(&c, 1, &options, stderr, &why));
    if (c.verify.outcome != LAB_PASS)
        fail_msg("%s", c.verify.message);
    assert_true(c.timed);
    assert_in_range(c.sample_count, 3, 4);
    assert_true(c.ns.median > 0.0 && c.floor_ns > 0.0);
    assert_string_equal(c.launch.kernel, c.verify.kernel);
    assert_int_equal(fake->graphs_live, graphs);
    assert_int_equal(fake->events_live, events);
    lab_bench_free(&c, 1);
    att_context_destroy(c.subject.ctx);
}

#define TEST(name) cmocka_unit_test_setup(name, before_each)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_context__gpu__described),
        TEST(test_context__auto__first_gpu_that_will_do),
        TEST(test_context__gpu_too_old_or_absent__device_error),
        TEST(test_context__auto__gpu_out_of_order__error_not_the_cpu),
        TEST(test_kernel_query__gpu__origin_and_tile),
        TEST(test_plan__gpu__explains_grid_and_workspace),
        TEST(test_plan__gpu__rung_needs_leave),
        TEST(test_context__kernel_of_the_other_device__named),
        TEST(test_plan__nth_driver_call_fails__clear_status_no_leak),
        TEST(test_mirror__memory_that_another_left__holds_what_was_copied),
        TEST(test_run__gpu__launched_with_its_pointers),
        TEST(test_run__gpu_bad_addresses__named_and_not_launched),
        TEST(test_merge_plan__empty_and_huge_strides__served),
        TEST(test_run__gpu_pointers_trusted__the_driver_is_not_asked),
        TEST(test_run__gpu_workspace__checked),
        TEST(test_run__gpu_launch_fails__said_and_the_next_works),
        TEST(test_lab__every_feature__verified_on_the_gpu),
        TEST(test_lab__misdeeds_on_the_gpu__caught),
        TEST(test_lab__driver_fails__said),
        TEST(test_bench__gpu__times_a_graph_and_gives_it_back),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
