/* test_runtime.c: the CUDA runtime on a real GPU: load, launch, record, capture, threads, faults.
 *
 * Needs nothing but the library and a kernel of its own (probe.cu). Prints "N passed, M failed, K skipped". */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cuda/driver.h"
#include "cuda/embed.h"
#include "cuda/jit.h"
#include "cuda/launch.h"
#include "tests/gpu/counts.h"
#include "tests/gpu/probe_params.h"

enum { COUNT = 1000, THREADS = 128, BLOCKS = (COUNT + THREADS - 1) / THREADS };

static att_cuda_device *device;
static const att_cuda_driver *cu;
static CUdeviceptr in, out;

static const att_cuda_kernel row = {.id = "probe_f32",
                                    .source = "probe",
                                    .targets = ATT_SM_ALL,
                                    .role = ATT_ROLE_PLAIN,
                                    .dtype = ATT_F32,
                                    .d_qk = 1,
                                    .d_v = 1,
                                    .tile_m = 1,
                                    .tile_n = 1,
                                    .stages = 1,
                                    .warps = 4};
static const att_cuda_shape shape = {.grid = {BLOCKS, 1, 1}, .threads = THREADS};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const void *pointer(CUdeviceptr memory) {
    return (const void *)(uintptr_t)memory;
}

static probe_params params_of(CUdeviceptr from, CUdeviceptr to, float add) {
    return (probe_params){
        .in = pointer(from), .out = (float *)(uintptr_t)to, .count = COUNT, .add = add};
}

static void fill_input(float start) {
    float host[COUNT];
    for (int i = 0; i < COUNT; i++)
        host[i] = start + (float)i;
    cu->MemcpyHtoD(in, host, sizeof host);
    cu->MemsetD8(out, 0xff, sizeof host);
}

/* Does `memory` hold (start + i) * factor + add ? */
static int holds(CUdeviceptr memory, float start, float factor, float add) {
    float host[COUNT];
    if (cu->CtxSynchronize() != CUDA_SUCCESS ||
        cu->MemcpyDtoH(host, memory, sizeof host) != CUDA_SUCCESS)
        return 0;
    for (int i = 0; i < COUNT; i++)
        if (host[i] != (start + (float)i) * factor + add)
            return 0;
    return 1;
}

static void test_streams(const att_cuda_function *f) {
    CUstream own[2];
    cu->StreamCreate(&own[0], CU_STREAM_DEFAULT);
    cu->StreamCreate(&own[1], CU_STREAM_NON_BLOCKING);
    void *const streams[] = {NULL, (void *)1, (void *)2, own[0], own[1]};
    for (int i = 0; i < 5; i++) {
        const probe_params p = params_of(in, out, (float)i);
        fill_input(3);
        cu->CtxSynchronize();
        check(att_cuda_launch(f, &shape, &p, sizeof p, streams[i]) == ATT_OK, "launch");
        check(holds(out, 3, 2, (float)i), "result of a launch on each kind of stream");
    }
    cu->StreamDestroy(own[0]);
    cu->StreamDestroy(own[1]);
}

/* A thread without a context gets the primary one for the call, and has none afterwards. */
static void *launch_without_context(void *argument) {
    const probe_params p = params_of(in, out, 7);
    CUcontext current = NULL;
    check(cu->CtxGetCurrent(&current) == CUDA_SUCCESS && !current,
          "a new thread has no context");
    check(att_cuda_launch(argument, &shape, &p, sizeof p, NULL) == ATT_OK,
          "launch without a context");
    check(cu->CtxGetCurrent(&current) == CUDA_SUCCESS && !current, "and is left without one");
    return NULL;
}

static void test_no_context(const att_cuda_function *f) {
    fill_input(5);
    cu->CtxSynchronize();
    pthread_t thread;
    pthread_create(&thread, NULL, launch_without_context, (void *)f);
    pthread_join(thread, NULL);
    check(holds(out, 5, 2, 7), "result of a launch without a context");
}

static void test_record(const att_cuda_function *f) {
    att_launch launch;
    att_cuda_launch_record(&launch, f, &shape);
    const att_embedded_code *code =
        att_embedded_code_find(row.id, att_cuda_device_limits(device)->cc);
    check(strcmp(launch.kernel, "probe_f32") == 0, "the record has the name in the code");
    check(launch.grid[0] == BLOCKS && launch.block[0] == THREADS && launch.registers > 0,
          "the record has grid, block and registers");
    check(code && strcmp(launch.code_sha256, code->sha256) == 0,
          "the record has the digest that the build wrote");
    printf("record: %s grid %u block %u registers %u sha256 %.16s...\n", launch.kernel,
           launch.grid[0], launch.block[0], launch.registers, launch.code_sha256);
}

static void test_shared(const att_cuda_function *f) {
    const uint32_t most = (uint32_t)(att_cuda_device_limits(device)->shared_per_block -
                                     att_cuda_function_code(f)->shared_bytes);
    att_cuda_shape large = shape;
    large.shared = most;
    probe_params p = params_of(in, out, 0);
    p.shared_words = (int)(most / 4);
    check(att_cuda_function_allow(f, most + 1) == ATT_E_UNSUPPORTED, "too much shared memory");
    check(att_cuda_launch(f, &large, &p, sizeof p, NULL) == ATT_E_CUDA,
          "shared memory that was not allowed");
    check(att_cuda_function_allow(f, most) == ATT_OK, "allow the most");
    check(att_cuda_function_allow(f, 50000) == ATT_OK, "a smaller plan of the same kernel");
    fill_input(1);
    check(att_cuda_launch(f, &large, &p, sizeof p, NULL) == ATT_OK, "launch with the most");
    check(holds(out, 1, 2, 0), "all of the shared memory is there");
    printf("dynamic shared memory: %u bytes\n", most);
}

static void test_overlap(const att_cuda_function *f) {
    att_cuda_shape overlapping = shape;
    overlapping.overlap = true;
    CUstream stream;
    cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    fill_input(1);
    cu->CtxSynchronize();
    /* x -> 2x, between two buffers and back, each launch reading what the one before it wrote. */
    const probe_params there = params_of(in, out, 0), back = params_of(out, in, 0);
    att_status status = ATT_OK;
    for (int i = 0; i < 10 && status == ATT_OK; i++)
        status = att_cuda_launch(f, &overlapping, i % 2 ? &back : &there, sizeof there, stream);
    check(status == ATT_OK, "overlapping launches");
    check(holds(in, 1, 1024, 0), "overlapping launches see what came before them");
    cu->StreamDestroy(stream);
}

static void test_graph(const att_cuda_function *f) {
    CUstream stream;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    const probe_params p = params_of(in, out, 9);
    check(cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS,
          "begin capture");
    check(att_cuda_launch(f, &shape, &p, sizeof p, stream) == ATT_OK, "launch while captured");
    check(cu->StreamEndCapture(stream, &graph) == CUDA_SUCCESS && graph, "end capture");
    check(cu->GraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS, "instantiate");
    for (int round = 0; round < 3; round++) {
        fill_input((float)round);
        cu->CtxSynchronize();
        check(cu->GraphLaunch(exec, stream) == CUDA_SUCCESS, "launch the graph");
        check(holds(out, (float)round, 2, 9), "a graph works on changed data");
    }
    cu->GraphExecDestroy(exec);
    cu->GraphDestroy(graph);
    cu->StreamDestroy(stream);
}

/* A kernel that this process has not loaded yet, captured right after it was: nothing is left to be done. */
static void test_capture_first_launch(void) {
    const att_cuda_source source = {.cache_dir = "", .defines = "-DFACTOR=5"};
    const att_cuda_function *f;
    check(att_cuda_function_load(&f, device, &row, &source) == ATT_OK, "compile with a define");
    if (!f)
        return;
    CUstream stream;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    const probe_params p = params_of(in, out, 1);
    fill_input(2);
    cu->CtxSynchronize();
    cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    check(att_cuda_launch(f, &shape, &p, sizeof p, stream) == ATT_OK,
          "the first launch of a kernel may be captured");
    check(cu->StreamEndCapture(stream, &graph) == CUDA_SUCCESS, "end of that capture");
    check(cu->GraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS &&
              cu->GraphLaunch(exec, stream) == CUDA_SUCCESS,
          "and its graph runs");
    check(holds(out, 2, 5, 1), "with the define");
    cu->GraphExecDestroy(exec);
    cu->GraphDestroy(graph);
    cu->StreamDestroy(stream);
}

typedef struct worker {
    pthread_t thread;
    int number, ok;
} worker;

/* Loads the kernel itself, then keeps two streams busy with results that only it can have made. */
static void *work(void *argument) {
    worker *w = argument;
    const att_cuda_source source = {.cache_dir = "", .jit_only = 1};
    const att_cuda_function *f;
    w->ok = att_cuda_function_load(&f, device, &row, &source) == ATT_OK &&
            att_cuda_device_enter(device) == ATT_OK;
    if (!w->ok)
        return NULL;
    CUstream streams[2];
    CUdeviceptr results[2];
    float host[COUNT];
    for (int s = 0; s < 2; s++)
        w->ok &= cu->StreamCreate(&streams[s], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                 cu->MemAlloc(&results[s], sizeof host) == CUDA_SUCCESS;
    for (int round = 0; round < 200 && w->ok; round++)
        for (int s = 0; s < 2; s++) {
            const float add = (float)(w->number * 1000 + round * 2 + s);
            const probe_params p = params_of(in, results[s], add);
            w->ok &= att_cuda_launch(f, &shape, &p, sizeof p, streams[s]) == ATT_OK;
        }
    for (int s = 0; s < 2; s++) {
        const float add = (float)(w->number * 1000 + 199 * 2 + s);
        w->ok &= cu->StreamSynchronize(streams[s]) == CUDA_SUCCESS &&
                 cu->MemcpyDtoH(host, results[s], sizeof host) == CUDA_SUCCESS;
        for (int i = 0; i < COUNT; i++)
            w->ok &= host[i] == (4 + (float)i) * 2 + add;
        cu->MemFree(results[s]);
        cu->StreamDestroy(streams[s]);
    }
    att_cuda_device_leave(device);
    return NULL;
}

static void test_threads(void) {
    enum { WORKERS = 8 };
    worker workers[WORKERS] = {0};
    fill_input(4);
    cu->CtxSynchronize();
    for (int i = 0; i < WORKERS; i++) {
        workers[i].number = i;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        check(workers[i].ok, "8 threads, two streams each, one kernel compiled once");
    }
}

static void test_jit(void) {
    char folder[] = "/tmp/att_probe_XXXXXX";
    check(mkdtemp(folder) != NULL, "a folder for the cache");
    const int cc = att_cuda_device_limits(device)->cc;
    unsigned char *code[2];
    size_t size[2];
    double seconds[2];
    for (int i = 0; i < 2; i++) {
        const double start = now();
        check(att_jit_compile(&code[i], &size[i], &row, cc, NULL, folder) == ATT_OK, "compile");
        seconds[i] = now() - start;
    }
    check(size[0] == size[1] && size[0] > 0 && memcmp(code[0], code[1], size[0]) == 0,
          "the cache gives what was compiled");
    printf("NVRTC %.0f ms, from the cache %.1f ms, %zu bytes\n", 1e3 * seconds[0],
           1e3 * seconds[1], size[0]);
    att_free(code[0]);
    att_free(code[1]);
    const att_cuda_source source = {.cache_dir = folder, .jit_only = 1};
    const att_cuda_function *f, *again;
    check(att_cuda_function_load(&f, device, &row, &source) == ATT_OK, "load compiled code");
    check(att_cuda_function_load(&again, device, &row, &source) == ATT_OK && f == again,
          "once");
    check(f && att_cuda_function_code(f)->origin == ATT_ORIGIN_JIT,
          "and says where it is from");
}

/* PTX in the library is for GPUs newer than it; this GPU's driver can compile it as well. */
static void test_ptx(void) {
    const att_embedded_code *code = att_embedded_code_find(row.id, 0);
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    check(code && cu->LibraryLoadData(&library, code->bytes, NULL, NULL, 0, NULL, NULL, 0) ==
                      CUDA_SUCCESS,
          "the driver takes packed PTX");
    if (!library)
        return;
    check(cu->LibraryGetKernel(&kernel, library, row.id) == CUDA_SUCCESS,
          "and finds the kernel");
    cu->LibraryUnload(library);
}

static void test_errors(const att_cuda_function *f) {
    const probe_params p = params_of(in, out, 0);
    att_cuda_shape bad = shape;
    bad.grid[1] = 70000;
    check(att_cuda_launch(f, &bad, &p, sizeof p, NULL) == ATT_E_CUDA, "a grid too large");
    check(strstr(att_last_error()->text, "cuLaunchKernelEx for probe_f32 gives CUDA_ERROR_") &&
              att_last_error()->cuda_code != 0,
          "names call, kernel and code");
    printf("error: %s\n", att_last_error()->text);
    att_cuda_device *none;
    check(att_cuda_device_open(&none, 63) == ATT_E_DEVICE, "no such GPU");
    fill_input(1);
    check(att_cuda_launch(f, &shape, &p, sizeof p, NULL) == ATT_OK && holds(out, 1, 2, 0),
          "the next call works");
}

static double call_cost(const att_cuda_function *f, CUstream stream) {
    enum { CALLS = 400 };
    const probe_params p = params_of(in, out, 0);
    double best = 1;
    for (int round = 0; round < 50; round++) {
        const double start = now();
        for (int i = 0; i < CALLS; i++)
            att_cuda_launch(f, &shape, &p, sizeof p, stream);
        const double each = (now() - start) / CALLS;
        best = each < best ? each : best;
        cu->StreamSynchronize(stream);
    }
    return best;
}

static double bare_cost(CUkernel kernel, CUstream stream) {
    enum { CALLS = 400 };
    probe_params p = params_of(in, out, 0);
    void *list[] = {&p};
    const CUlaunchConfig config = {.gridDimX = BLOCKS,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = THREADS,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = stream};
    double best = 1;
    for (int round = 0; round < 50; round++) {
        const double start = now();
        for (int i = 0; i < CALLS; i++)
            cu->LaunchKernelEx(&config, (CUfunction)kernel, list, NULL);
        const double each = (now() - start) / CALLS;
        best = each < best ? each : best;
        cu->StreamSynchronize(stream);
    }
    return best;
}

static void test_cost(const att_cuda_function *f) {
    const att_embedded_code *code =
        att_embedded_code_find(row.id, att_cuda_device_limits(device)->cc);
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUstream stream;
    if (!code ||
        cu->LibraryLoadData(&library, code->bytes, NULL, NULL, 0, NULL, NULL, 0) !=
            CUDA_SUCCESS ||
        cu->LibraryGetKernel(&kernel, library, row.id) != CUDA_SUCCESS) {
        check(0, "load the code once more");
        return;
    }
    cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    const double bare = bare_cost(kernel, stream), ours = call_cost(f, stream);
    printf("launch: driver alone %.0f ns, att_cuda_launch %.0f ns\n", 1e9 * bare, 1e9 * ours);
    check(ours - bare < 1e-6, "a launch costs less than 1 us beyond the driver's own");
    cu->StreamDestroy(stream);
    cu->LibraryUnload(library);
}

/* Comes last: the context does not survive it. */
static void test_sticky(const att_cuda_function *f) {
    const probe_params p = params_of(16, 16, 0), good = params_of(in, out, 0);
    check(att_cuda_launch(f, &shape, &p, sizeof p, NULL) == ATT_OK,
          "a faulty launch is queued");
    check(cu->CtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS, "and faults");
    check(att_cuda_launch(f, &shape, &good, sizeof good, NULL) == ATT_E_CUDA &&
              strstr(att_last_error()->text, "context is lost"),
          "the next launch says that the context is lost");
    printf("error: %s\n", att_last_error()->text);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was found before a crash is worth having */
    char why[160];
    const int count = att_cuda_device_count(why, sizeof why);
    if (count < 1) {
        printf("no GPU: %s\n", why);
        return 3;
    }
    const double start = now();
    check(att_cuda_device_open(&device, 0) == ATT_OK, "open");
    if (!device)
        return 1;
    const double opened = now();
    cu = att_cuda_device_driver(device);
    const att_cuda_limits *limits = att_cuda_device_limits(device);
    printf(
        "%s %s cc %d sms %d threads/sm %d warps/sm %d blocks/sm %d regs/sm %d regs/block %d "
        "shared/sm %d shared/block %d reserved %d l2 %d memory %lld clock %d kHz memory %d kHz "
        "x %d bits driver %d\n",
        limits->name, limits->uuid, limits->cc, limits->sms, limits->threads_per_sm,
        limits->warps_per_sm, limits->blocks_per_sm, limits->registers_per_sm,
        limits->registers_per_block, limits->shared_per_sm, limits->shared_per_block,
        limits->shared_reserved, limits->l2_bytes, (long long)limits->memory_bytes,
        limits->clock_khz, limits->memory_clock_khz, limits->memory_bus_bits, limits->driver);
    check(att_cuda_device_enter(device) == ATT_OK, "enter");
    const double entered = now();
    cu->MemAlloc(&in, COUNT * sizeof(float));
    cu->MemAlloc(&out, COUNT * sizeof(float));
    const att_cuda_function *f = NULL;
    const double before = now();
    check(att_cuda_function_load(&f, device, &row, NULL) == ATT_OK, "load embedded code");
    printf("open %.1f ms, context %.1f ms, load %.2f ms\n", 1e3 * (opened - start),
           1e3 * (entered - opened), 1e3 * (now() - before));
    if (f) {
        check(att_cuda_function_code(f)->origin == ATT_ORIGIN_EMBEDDED, "from the library");
        test_streams(f);
        test_no_context(f);
        test_record(f);
        test_overlap(f);
        test_graph(f);
        test_shared(f);
        test_ptx();
        test_errors(f);
        test_cost(f);
        if (att_jit_available(NULL)) {
            test_jit();
            test_capture_first_launch();
            test_threads();
        } else {
            skip_test("no NVRTC, so nothing was compiled here");
        }
        test_sticky(f);
    }
    return say_counts();
}
