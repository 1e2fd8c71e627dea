/* test_cuda_module.c: devices, contexts, loading, launching and recording, on a fake driver. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sha256.h"
#include "cuda/launch.h"
#include "tests/fake_cuda/fake_tables.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"

static fake_cuda *fake;
static fake_nvrtc *compiler;
static const att_cuda_source no_cache = {.cache_dir = ""};

enum { HOPPER = 0, ADA = 1, NEWER = 2, OLD = 3 }; /* the GPUs of the fake driver */

static att_cuda_device *open_device(int index) {
    att_cuda_device *device;
    assert_ok(att_cuda_device_open(&device, index));
    return device;
}

static CUcontext current_context(void) {
    CUcontext context;
    assert_int_equal(att_cuda_device_driver(open_device(HOPPER))->CtxGetCurrent(&context), 0);
    return context;
}

/* ------------------------------------------------------------------ devices */

/* Comes first: a device that is open stays open. */
static void test_device_open__each_call_failing__status_then_works(void **state) {
    (void)state;
    att_cuda_device *device;
    long n = 1;
    for (;; n++) {
        reset_fake_cuda(fake);
        fake->fail_at = n;
        fake->fail_code = CUDA_ERROR_INVALID_VALUE;
        const att_status status = att_cuda_device_open(&device, HOPPER);
        if (status == ATT_OK)
            break;
        assert_null(device);
        if (status == ATT_E_CUDA) {
            assert_int_equal(att_last_error()->cuda_code, CUDA_ERROR_INVALID_VALUE);
            assert_non_null(strstr(att_last_error()->text, fake->failed_call));
        } else { /* the driver itself did not start */
            assert_int_equal(status, ATT_E_DEVICE);
        }
    }
    assert_true(n > 20);
    reset_fake_cuda(fake);
}

static void test_device_open__again__same_device_no_calls(void **state) {
    (void)state;
    att_cuda_device *device = open_device(HOPPER);
    fake->calls = 0;
    assert_ptr_equal(open_device(HOPPER), device);
    assert_int_equal(fake->calls, 0);
    assert_int_equal(att_cuda_device_index(device), HOPPER);
    assert_int_equal(att_cuda_device_handle(device), HOPPER);
    assert_int_equal(att_cuda_device_index(open_device(ADA)), ADA);
}

static void test_device_limits__read_from_the_driver(void **state) {
    (void)state;
    const att_cuda_limits *limits = att_cuda_device_limits(open_device(ADA));
    assert_string_equal(limits->name, "Fake GPU 1");
    assert_string_equal(limits->uuid, "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f");
    assert_int_equal(limits->cc, 89);
    assert_int_equal(limits->sms, 132);
    assert_int_equal(limits->threads_per_sm, 1536);
    assert_int_equal(limits->warps_per_sm, 48);
    assert_int_equal(limits->blocks_per_sm, 32);
    assert_int_equal(limits->registers_per_sm, 65536);
    assert_int_equal(limits->registers_per_block, 65536);
    assert_int_equal(limits->shared_per_sm, 102400);
    assert_int_equal(limits->shared_per_block, 101376);
    assert_int_equal(limits->shared_reserved, 1024);
    assert_int_equal(limits->l2_bytes, 50 << 20);
    assert_true(limits->memory_bytes == (int64_t)2 << 32);
    assert_int_equal(limits->clock_khz, 1980000);
    assert_int_equal(limits->memory_clock_khz, 3201000);
    assert_int_equal(limits->memory_bus_bits, 6144);
    assert_int_equal(limits->driver, 13000);
}

static void test_device_open__not_served__says_why(void **state) {
    (void)state;
    att_cuda_device *device;
    assert_fails(att_cuda_device_open(&device, OLD), ATT_E_DEVICE, "device_index",
                 "GPU 3 (Fake GPU 3) has compute capability 7.5; 8.0 or newer is needed");
    assert_fails(att_cuda_device_open(&device, 4), ATT_E_DEVICE, "device_index", "4 GPUs");
    assert_fails(att_cuda_device_open(&device, -1), ATT_E_DEVICE, "device_index", "-1");
    assert_fails(att_cuda_device_open(&device, 64), ATT_E_DEVICE, "device_index", "64");
    fake->devices = 1;
    assert_fails(att_cuda_device_open(&device, 2), ATT_E_DEVICE, "device_index", "1 GPU");
    fake->devices = FAKE_DEVICES;
}

/* ----------------------------------------------------------------- contexts */

static void test_enter__no_context__primary_retained_once_and_left(void **state) {
    (void)state;
    att_cuda_device *device = open_device(HOPPER);
    assert_null(current_context());
    for (int i = 0; i < 3; i++) {
        assert_ok(att_cuda_device_enter(device));
        assert_non_null(current_context());
        att_cuda_device_leave(device);
        assert_null(current_context());
    }
    assert_int_equal(fake->contexts_retained, 1);
}

static void test_enter__callers_context__kept(void **state) {
    (void)state;
    att_cuda_device *device = open_device(HOPPER), *other = open_device(ADA);
    const att_cuda_driver *cu = att_cuda_device_driver(device);
    /* The caller's own context of the device. */
    assert_ok(att_cuda_device_enter(device));
    const CUcontext own = current_context();
    const long retained = fake->contexts_retained;
    assert_ok(att_cuda_device_enter(device));
    assert_ptr_equal(current_context(), own);
    att_cuda_device_leave(device);
    assert_ptr_equal(current_context(), own);
    assert_int_equal(fake->contexts_retained, retained);
    /* A context of another device is switched for the duration of the call. */
    assert_ok(att_cuda_device_enter(other));
    CUdevice now;
    assert_int_equal(cu->CtxGetDevice(&now), 0);
    assert_int_equal(now, ADA);
    att_cuda_device_leave(other);
    assert_ptr_equal(current_context(), own);
    att_cuda_device_leave(device);
    assert_null(current_context());
}

static void test_enter__each_call_failing__status_and_nothing_pushed(void **state) {
    (void)state;
    att_cuda_device *device = open_device(NEWER);
    for (long n = 1;; n++) {
        reset_fake_cuda(fake);
        fake->fail_at = n;
        fake->fail_code = CUDA_ERROR_INVALID_VALUE;
        const att_status status = att_cuda_device_enter(device);
        reset_fake_cuda(fake);
        if (status == ATT_OK)
            break;
        assert_int_equal(status, ATT_E_CUDA);
        assert_null(current_context());
    }
    att_cuda_device_leave(device);
    assert_null(current_context());
}

/* ------------------------------------------------------------------ loading */

static const att_cuda_function *load(int device, const att_cuda_kernel *row,
                                     const att_cuda_source *source) {
    const att_cuda_function *f;
    assert_ok(att_cuda_function_load(&f, open_device(device), row, source));
    assert_non_null(f);
    return f;
}

static void test_load__embedded__its_digest_and_attributes(void **state) {
    (void)state;
    const att_cuda_code *code = att_cuda_function_code(load(HOPPER, &fake_all, &no_cache));
    char digest[ATT_SHA256_HEX];
    att_sha256_of(fake_code_90, sizeof fake_code_90, digest);
    assert_int_equal(code->origin, ATT_ORIGIN_EMBEDDED);
    assert_string_equal(code->sha256, digest);
    assert_int_equal(code->registers, 168);
    assert_int_equal(code->shared_bytes, 1024);
    assert_int_equal(code->local_bytes, 0);
    assert_int_equal(code->max_threads, 256);
    assert_null(current_context());
}

static void test_load__again__same_function_no_load(void **state) {
    (void)state;
    const att_cuda_function *f = load(HOPPER, &fake_all, &no_cache);
    const long loaded = fake->libraries_loaded;
    const att_cuda_kernel copy = fake_all;
    assert_ptr_equal(load(HOPPER, &copy, NULL), f);
    assert_int_equal(fake->libraries_loaded, loaded);
    assert_ptr_not_equal(load(ADA, &fake_all, NULL), f);
    assert_int_equal(fake->libraries_loaded, loaded + 1);
}

static void test_load__newer_gpu__ptx(void **state) {
    (void)state;
    const att_cuda_function *f = load(NEWER, &fake_all, &no_cache);
    assert_int_equal(att_cuda_function_code(f)->origin, ATT_ORIGIN_PTX);
}

/* The digest shows which bytes the driver was given. */
static void test_load__8_9__machine_code_of_8_0(void **state) {
    (void)state;
    const att_cuda_code *code = att_cuda_function_code(load(ADA, &fake_all, &no_cache));
    char digest[ATT_SHA256_HEX];
    att_sha256_of(fake_code_80, sizeof fake_code_80, digest);
    assert_int_equal(code->origin, ATT_ORIGIN_EMBEDDED);
    assert_string_equal(code->sha256, digest);
}

/* Machine code runs on no earlier minor version. Comes after the tests that need OLD closed: the
 * GPU that was too old is here one of 8.0. */
static void test_load__8_0__never_machine_code_of_8_6(void **state) {
    (void)state;
    const att_cuda_kernel newer = fake_named("fake_86");
    char digest[ATT_SHA256_HEX];
    att_sha256_of(fake_ptx, sizeof fake_ptx, digest);
    const int cc = fake->cc[OLD];
    fake->cc[OLD] = 80;
    const att_cuda_code *code = att_cuda_function_code(load(OLD, &newer, &no_cache));
    fake->cc[OLD] = cc;
    assert_int_equal(code->origin, ATT_ORIGIN_PTX);
    assert_string_equal(code->sha256, digest);
}

static void test_load__jit__by_choice_or_defines(void **state) {
    (void)state;
    const att_cuda_source only = {.cache_dir = "", .jit_only = 1};
    const att_cuda_source defined = {.cache_dir = "", .defines = "-DUSE_X=0  -DUSE_Y"};
    const att_cuda_function *a = load(HOPPER, &fake_all, &only);
    assert_int_equal(att_cuda_function_code(a)->origin, ATT_ORIGIN_JIT);
    assert_string_equal(compiler->options,
                        "--gpu-architecture=sm_90a -std=c++17 -DKERNEL=fake_all -DROLE=PLAIN "
                        "-DDTYPE=F16 -DD_QK=64 -DD_V=48 -DTILE_M=128 -DTILE_N=32 -DSTAGES=2 "
                        "-DWARPS=4 -DSHARED_BYTES=0");
    assert_string_equal(compiler->source, fake_source);
    assert_int_equal(compiler->headers, 4);
    const att_cuda_function *b = load(ADA, &fake_all, &defined);
    assert_non_null(strstr(compiler->options, "sm_89 "));
    assert_non_null(strstr(compiler->options, " -DUSE_X=0 -DUSE_Y"));
    assert_ptr_not_equal(b, load(ADA, &fake_all, &no_cache));
    assert_ptr_equal(b, load(ADA, &fake_all, &defined));
    /* Another tile under the same id is different code. */
    att_cuda_kernel wider = fake_all;
    wider.tile_n = 64;
    assert_ptr_not_equal(load(HOPPER, &wider, &only), a);
}

static void test_load__no_code_for_this_gpu__refused(void **state) {
    (void)state;
    const att_cuda_function *f;
    att_cuda_kernel hopper = fake_named("fake_hopper");
    hopper.targets = ATT_SM90;
    load(HOPPER, &hopper, &no_cache);
    assert_fails(att_cuda_function_load(&f, open_device(ADA), &hopper, &no_cache),
                 ATT_E_UNSUPPORTED, "device", "fake_hopper is not for compute capability 8.9");
    assert_null(f);
}

static void test_load__defines_that_are_none__refused(void **state) {
    (void)state;
    const att_cuda_function *f;
    static const char *const bad[] = {"-I/tmp", "DX", "-DX -g", "-D"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const att_cuda_source source = {.cache_dir = "", .defines = bad[i]};
        assert_fails(att_cuda_function_load(&f, open_device(HOPPER), &fake_all, &source),
                     ATT_E_ARG, "defines", "-DNAME=VALUE");
    }
    char text[2000];
    memset(text, 'X', sizeof text);
    text[sizeof text - 1] = '\0';
    att_cuda_source source = {.cache_dir = "", .defines = text};
    assert_fails(att_cuda_function_load(&f, open_device(HOPPER), &fake_all, &source), ATT_E_ARG,
                 "defines", "1023");
    for (size_t i = 0; i + 4 < 1000; i += 4)
        memcpy(text + i, "-DA ", 5);
    assert_fails(att_cuda_function_load(&f, open_device(HOPPER), &fake_all, &source), ATT_E_ARG,
                 "defines", "more than");
    const att_cuda_kernel named = fake_named(text);
    assert_fails(att_cuda_function_load(&f, open_device(HOPPER), &named, &no_cache), ATT_E_ARG,
                 "kernel", "127");
}

/* A driver older than the library's compiler refuses its code; code compiled there is used
 * instead. */
static void test_load__embedded_code_refused__compiled(void **state) {
    (void)state;
    att_cuda_kernel row = fake_all;
    row.warps = 8; /* not loaded yet */
    const long before = compiler->compiled;
    reset_fake_cuda(fake);
    fake->fail_code = CUDA_ERROR_NO_BINARY_FOR_GPU;
    for (fake->fail_at = 1; fake->fail_at < 50; fake->fail_at++) {
        fake->calls = 0;
        fake->failed_call[0] = '\0';
        const att_cuda_function *f;
        const att_status status =
            att_cuda_function_load(&f, open_device(HOPPER), &row, &no_cache);
        if (strcmp(fake->failed_call, "cuLibraryLoadData") == 0) {
            assert_int_equal(status, ATT_OK);
            assert_int_equal(att_cuda_function_code(f)->origin, ATT_ORIGIN_JIT);
            assert_int_equal(compiler->compiled, before + 1);
            reset_fake_cuda(fake);
            return;
        }
    }
    fail_msg("cuLibraryLoadData was not called");
}

/* Each call fails in turn: a clear status, nothing leaked, and the next attempt works. */
static void check_each_call_failing(const att_cuda_source *source, const char *id) {
    const att_cuda_kernel row = {.id = id,
                                 .source = "fake",
                                 .targets = ATT_SM_ALL,
                                 .role = ATT_ROLE_DECODE,
                                 .dtype = ATT_BF16};
    const att_cuda_function *f = NULL;
    const long live = att_alloc_live(), libraries = fake->libraries_live;
    long n = 1;
    for (;; n++) {
        reset_fake_cuda(fake);
        fake->fail_at = n;
        fake->fail_code = CUDA_ERROR_INVALID_VALUE;
        const att_status status = att_cuda_function_load(&f, open_device(ADA), &row, source);
        reset_fake_cuda(fake);
        if (status == ATT_OK)
            break;
        assert_int_equal(status, ATT_E_CUDA);
        assert_null(f);
        assert_int_equal(att_alloc_live(), live);
        assert_int_equal(fake->libraries_live, libraries);
        assert_null(current_context());
    }
    assert_true(n > 10);
    assert_int_equal(att_alloc_live(), live + 1);
    assert_int_equal(fake->libraries_live, libraries + 1);
}

static void test_load__each_call_failing__status_no_leak_then_works(void **state) {
    (void)state;
    const att_cuda_source only = {.cache_dir = "", .jit_only = 1};
    check_each_call_failing(&only, "fake_failing");
}

static void test_load__each_allocation_failing__status_no_leak_then_works(void **state) {
    (void)state;
    const att_cuda_kernel row = fake_named("fake_memory");
    const att_cuda_source only = {.cache_dir = "", .jit_only = 1};
    const long live = att_alloc_live(), libraries = fake->libraries_live;
    const att_cuda_function *f;
    long n = 0;
    for (;; n++) {
        att_alloc_fail_after(n);
        const att_status status = att_cuda_function_load(&f, open_device(ADA), &row, &only);
        att_alloc_fail_after(-1);
        if (status == ATT_OK)
            break;
        assert_int_equal(status, ATT_E_MEMORY);
        assert_int_equal(att_alloc_live(), live);
        assert_int_equal(fake->libraries_live, libraries);
        assert_int_equal(compiler->programs_live, 0);
    }
    assert_int_equal(n, 3); /* the function, the list of headers, the code */
}

static void test_load__driver_that_tells_no_names__name_it_was_found_by(void **state) {
    (void)state;
    const att_cuda_kernel row = fake_named("fake_nameless");
    const att_cuda_source only = {.cache_dir = "", .jit_only = 1};
    att_cuda_driver *cu = (att_cuda_driver *)att_cuda_device_driver(open_device(HOPPER));
    const att_cuda_driver whole = *cu;
    cu->KernelGetName = NULL;
    cu->FuncLoad = NULL;
    cu->KernelGetParamInfo = NULL;
    const att_cuda_function *f = load(HOPPER, &row, &only);
    *cu = whole;
    att_launch launch;
    att_cuda_launch_record(&launch, f, &(att_cuda_shape){0});
    assert_string_equal(launch.kernel, "fake_nameless");
}

enum { THREADS = 8 };
static pthread_barrier_t start;

static void *load_one(void *argument) {
    const att_cuda_function **f = argument;
    static const att_cuda_source only = {.cache_dir = "", .jit_only = 1};
    const att_cuda_kernel row = fake_named("fake_threads");
    pthread_barrier_wait(&start);
    if (att_cuda_function_load(f, open_device(HOPPER), &row, &only) != ATT_OK)
        *f = NULL;
    return NULL;
}

static void test_load__eight_threads__loaded_once(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    const att_cuda_function *found[THREADS] = {0};
    const long loaded = fake->libraries_loaded, compiled = compiler->compiled;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load_one, &found[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    for (int i = 0; i < THREADS; i++) {
        assert_non_null(found[i]);
        assert_ptr_equal(found[i], found[0]);
    }
    assert_int_equal(fake->libraries_loaded, loaded + 1);
    assert_int_equal(compiler->compiled, compiled + 1);
}

/* Load sources that compile and sources that do not, concurrently with the other threads. */
static void *load_some(void *argument) {
    int *wrong = argument;
    static const att_cuda_source only = {.cache_dir = "", .jit_only = 1};
    static const char *const ids[] = {"fake_mixed_1", "fake_mixed_2", "fake_mixed_3"};
    pthread_barrier_wait(&start);
    for (int i = 0; i < 30; i++) {
        att_cuda_kernel row = fake_named(ids[i % 3]);
        row.source = i % 2 ? "fake" : "absent";
        const att_cuda_function *f;
        const att_status status = att_cuda_function_load(&f, open_device(HOPPER), &row, &only);
        *wrong += status != (i % 2 ? ATT_OK : ATT_E_UNSUPPORTED) || !f != !(i % 2);
    }
    return NULL;
}

static void test_load__threads_that_fail_and_threads_that_wait__no_leak(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    int wrong[THREADS] = {0};
    const long loaded = fake->libraries_loaded, live = att_alloc_live();
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load_some, &wrong[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(wrong[i], 0);
    assert_int_equal(fake->libraries_loaded, loaded + 3);
    assert_int_equal(att_alloc_live(), live + 3);
}

static void test_origin_of__rows_and_gpus__where_code_comes_from(void **state) {
    (void)state;
    const att_cuda_kernel unknown = fake_named("fake_not_embedded");
    att_cuda_kernel hopper = fake_named("fake_hopper"), other = fake_named("fake_other");
    hopper.targets = ATT_SM90;
    other.targets = ATT_SM86 | ATT_SM90;
    assert_int_equal(att_cuda_origin_of(&fake_all, 90), ATT_ORIGIN_EMBEDDED);
    assert_int_equal(att_cuda_origin_of(&fake_all, 89), ATT_ORIGIN_EMBEDDED);
    assert_int_equal(att_cuda_origin_of(&fake_all, 86), ATT_ORIGIN_EMBEDDED);
    assert_int_equal(att_cuda_origin_of(&fake_all, 80), ATT_ORIGIN_EMBEDDED);
    assert_int_equal(att_cuda_origin_of(&fake_all, 87), ATT_ORIGIN_PTX);
    assert_int_equal(att_cuda_origin_of(&fake_all, 120), ATT_ORIGIN_PTX);
    assert_int_equal(att_cuda_origin_of(&fake_all, 75), ATT_ORIGIN_NONE);
    assert_int_equal(att_cuda_origin_of(&unknown, 90), ATT_ORIGIN_JIT);
    assert_int_equal(att_cuda_origin_of(&unknown, 100), ATT_ORIGIN_JIT);
    assert_int_equal(att_cuda_origin_of(&hopper, 90), ATT_ORIGIN_EMBEDDED);
    assert_int_equal(att_cuda_origin_of(&hopper, 100), ATT_ORIGIN_NONE);
    assert_int_equal(att_cuda_origin_of(&hopper, 89), ATT_ORIGIN_NONE);
    assert_int_equal(att_cuda_origin_of(&other, 86), ATT_ORIGIN_JIT);
    assert_int_equal(att_cuda_origin_of(&other, 120), ATT_ORIGIN_JIT);
    assert_int_equal(att_cuda_origin_of(&other, 80), ATT_ORIGIN_NONE);
}

/* ---------------------------------------------------------------- launching */

typedef struct fake_params {
    int numbers[100];
} fake_params;

static const att_cuda_shape shape = {.grid = {7, 8, 9}, .threads = 96, .shared = 1000};

static void test_launch__shape_and_parameters__reach_the_driver(void **state) {
    (void)state;
    const att_cuda_function *f = load(HOPPER, &fake_all, &no_cache);
    fake_params p;
    for (int i = 0; i < 100; i++)
        p.numbers[i] = i * i;
    assert_ok(att_cuda_launch(f, &shape, &p, sizeof p, (void *)2));
    assert_string_equal(fake->kernel, "fake_all");
    assert_int_equal(fake->config.gridDimX, 7);
    assert_int_equal(fake->config.gridDimY, 8);
    assert_int_equal(fake->config.gridDimZ, 9);
    assert_int_equal(fake->config.blockDimX, 96);
    assert_int_equal(fake->config.blockDimY, 1);
    assert_int_equal(fake->config.blockDimZ, 1);
    assert_int_equal(fake->config.sharedMemBytes, 1000);
    assert_ptr_equal(fake->config.hStream, (CUstream)2);
    assert_int_equal(fake->attribute, -1);
    assert_int_equal(fake->params_bytes, sizeof p);
    assert_memory_equal(fake->params, &p, sizeof p);
    assert_null(current_context());
}

static void test_launch__parameters_of_another_size__refused(void **state) {
    (void)state;
    const att_cuda_function *f = load(HOPPER, &fake_all, &no_cache);
    const fake_params p = {{0}};
    const long launches = fake->launches;
    assert_fails(att_cuda_launch(f, &shape, &p, sizeof p - 8, NULL), ATT_E_ARG, "params",
                 "fake_all takes 400 bytes of parameters, not 392");
    assert_int_equal(fake->launches, launches);
}

static void test_launch__overlap__only_where_the_gpu_can(void **state) {
    (void)state;
    const fake_params p = {{0}};
    att_cuda_shape overlapping = shape;
    overlapping.overlap = true;
    assert_ok(
        att_cuda_launch(load(HOPPER, &fake_all, &no_cache), &overlapping, &p, sizeof p, NULL));
    assert_int_equal(fake->attribute, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    assert_ok(
        att_cuda_launch(load(ADA, &fake_all, &no_cache), &overlapping, &p, sizeof p, NULL));
    assert_int_equal(fake->attribute, -1);
}

static void test_launch__context_current__three_calls_of_the_driver(void **state) {
    (void)state;
    att_cuda_device *device = open_device(HOPPER);
    const att_cuda_function *f = load(HOPPER, &fake_all, &no_cache);
    const fake_params p = {{0}};
    assert_ok(att_cuda_device_enter(device));
    const CUcontext own = current_context();
    fake->calls = 0;
    assert_ok(att_cuda_launch(f, &shape, &p, sizeof p, NULL));
    assert_int_equal(fake->calls, 3); /* the context, its device, the launch */
    assert_ptr_equal(current_context(), own);
    att_cuda_device_leave(device);
    assert_null(current_context());
}

static void test_launch__each_call_failing__status_then_works(void **state) {
    (void)state;
    const att_cuda_function *f = load(HOPPER, &fake_all, &no_cache);
    const fake_params p = {{0}};
    const long live = att_alloc_live();
    long n = 1;
    for (;; n++) {
        reset_fake_cuda(fake);
        fake->fail_at = n;
        fake->fail_code = CUDA_ERROR_INVALID_VALUE;
        const att_status status = att_cuda_launch(f, &shape, &p, sizeof p, NULL);
        const char *failed = fake->failed_call;
        if (status == ATT_OK)
            break;
        assert_int_equal(status, ATT_E_CUDA);
        assert_non_null(strstr(att_last_error()->text, failed));
        if (strcmp(failed, "cuLaunchKernelEx") == 0)
            assert_non_null(strstr(att_last_error()->text, "fake_all"));
        reset_fake_cuda(fake);
        assert_null(current_context());
    }
    assert_int_equal(
        n, 4); /* current context, push, launch: the primary one is retained already */
    assert_int_equal(att_alloc_live(), live);
    reset_fake_cuda(fake);
}

static void test_launch__after_a_fault__says_that_the_context_is_lost(void **state) {
    (void)state;
    const att_cuda_function *f = load(HOPPER, &fake_all, &no_cache);
    const fake_params p = {{0}};
    fake->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_fails(att_cuda_launch(f, &shape, &p, sizeof p, NULL), ATT_E_CUDA, "",
                 "context is lost");
    assert_int_equal(att_last_error()->cuda_code, CUDA_ERROR_ILLEGAL_ADDRESS);
    reset_fake_cuda(fake);
    assert_ok(att_cuda_launch(f, &shape, &p, sizeof p, NULL));
}

static void test_launch_record__from_what_was_loaded(void **state) {
    (void)state;
    const att_cuda_function *f = load(HOPPER, &fake_all, &no_cache);
    att_launch launch;
    att_cuda_launch_record(&launch, f, &shape);
    assert_string_equal(launch.kernel, "fake_all");
    assert_int_equal(launch.grid[0], 7);
    assert_int_equal(launch.grid[1], 8);
    assert_int_equal(launch.grid[2], 9);
    assert_int_equal(launch.block[0], 96);
    assert_int_equal(launch.block[1], 1);
    assert_int_equal(launch.block[2], 1);
    assert_int_equal(launch.shared_bytes, 1000);
    assert_int_equal(launch.registers, 168);
    assert_string_equal(launch.code_sha256, att_cuda_function_code(f)->sha256);
}

static void test_allow__grows_and_never_shrinks(void **state) {
    (void)state;
    const att_cuda_kernel row = fake_named("fake_shared");
    const att_cuda_source only = {.cache_dir = "", .jit_only = 1};
    const att_cuda_function *f = load(ADA, &row, &only);
    fake->shared_allowed = 0;
    assert_ok(att_cuda_function_allow(f, 48128)); /* any function may have as much */
    assert_int_equal(fake->shared_allowed, 0);
    assert_ok(att_cuda_function_allow(f, 100000));
    assert_int_equal(fake->shared_allowed, 100000);
    assert_ok(att_cuda_function_allow(f, 60000));
    assert_int_equal(fake->shared_allowed, 100000);
    assert_fails(
        att_cuda_function_allow(f, 101376 - 1023), ATT_E_UNSUPPORTED, "device",
        "fake_shared needs 101377 bytes of shared memory per block, the GPU has 101376");
    fake->calls = 0;
    fake->fail_at = 1;
    fake->fail_code = CUDA_ERROR_INVALID_VALUE;
    assert_fails(att_cuda_function_allow(f, 100352), ATT_E_CUDA, "", "cuKernelSetAttribute");
    reset_fake_cuda(fake);
    assert_ok(att_cuda_function_allow(f, 100352));
    assert_int_equal(fake->shared_allowed, 100352);
}

int main(void) {
    fake = use_fake_cuda();
    fake->kernel_params = sizeof(fake_params);
    compiler = use_fake_nvrtc();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_open__each_call_failing__status_then_works),
        cmocka_unit_test(test_device_open__again__same_device_no_calls),
        cmocka_unit_test(test_device_limits__read_from_the_driver),
        cmocka_unit_test(test_device_open__not_served__says_why),
        cmocka_unit_test(test_enter__no_context__primary_retained_once_and_left),
        cmocka_unit_test(test_enter__callers_context__kept),
        cmocka_unit_test(test_enter__each_call_failing__status_and_nothing_pushed),
        cmocka_unit_test(test_load__embedded__its_digest_and_attributes),
        cmocka_unit_test(test_load__again__same_function_no_load),
        cmocka_unit_test(test_load__newer_gpu__ptx),
        cmocka_unit_test(test_load__8_9__machine_code_of_8_0),
        cmocka_unit_test(test_load__8_0__never_machine_code_of_8_6),
        cmocka_unit_test(test_load__jit__by_choice_or_defines),
        cmocka_unit_test(test_load__no_code_for_this_gpu__refused),
        cmocka_unit_test(test_load__defines_that_are_none__refused),
        cmocka_unit_test(test_load__embedded_code_refused__compiled),
        cmocka_unit_test(test_load__each_call_failing__status_no_leak_then_works),
        cmocka_unit_test(test_load__each_allocation_failing__status_no_leak_then_works),
        cmocka_unit_test(test_load__driver_that_tells_no_names__name_it_was_found_by),
        cmocka_unit_test(test_load__eight_threads__loaded_once),
        cmocka_unit_test(test_load__threads_that_fail_and_threads_that_wait__no_leak),
        cmocka_unit_test(test_origin_of__rows_and_gpus__where_code_comes_from),
        cmocka_unit_test(test_launch__shape_and_parameters__reach_the_driver),
        cmocka_unit_test(test_launch__parameters_of_another_size__refused),
        cmocka_unit_test(test_launch__overlap__only_where_the_gpu_can),
        cmocka_unit_test(test_launch__context_current__three_calls_of_the_driver),
        cmocka_unit_test(test_launch__each_call_failing__status_then_works),
        cmocka_unit_test(test_launch__after_a_fault__says_that_the_context_is_lost),
        cmocka_unit_test(test_launch_record__from_what_was_loaded),
        cmocka_unit_test(test_allow__grows_and_never_shrinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
