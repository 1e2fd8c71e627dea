/* test_gpu_api.c: the library on a real GPU, as a caller meets it: records, graphs, threads, repeats, faults.
 *
 * Needs no test library. Prints a line for every failure and closes with "N passed, M failed, K skipped".
 * With the argument "fault" it only shows what follows a fault of the device, which ends the process's use of it. */
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/cuda/tiling.h"
#include "core/plan.h"
#include "cuda/driver.h"
#include "cuda/embed.h"
#include "cuda/function.h"
#include "lab/attention/attention_lab.h"
#include "lab/base/clock.h"
#include "lab/subject/device_timer.h"
#include "lab/tensors/device_memory.h"
#include "lab/verify/verify.h"
#include "tests/gpu/counts.h"

static att_context *ctx;
static att_cuda_device *gpu;
static const att_cuda_driver *cu;

/* ------------------------------------------------------------------- problems */

/* A problem ready to run on the GPU. */
typedef struct bench_top {
    lab_spec spec;
    lab_tensors *tensors;
    lab_buffer workspace;
    lab_mirror mirror;
    att_plan *plan;
} bench_top;

static bool set_up(bench_top *t, const char *line, uint64_t seed, const att_plan *shared) {
    lab_message why = {.text = ""};
    memset(t, 0, sizeof *t);
    if (!lab_spec_parse(&t->spec, line, &why))
        return check(false, "%s: %s", line, why.text);
    if (!shared && att_plan_create(&t->plan, ctx, &t->spec.problem) != ATT_OK)
        return check(false, "%s: no plan", line);
    const size_t bytes = att_plan_workspace(shared ? shared : t->plan);
    return check(lab_tensors_create(&t->tensors, &t->spec, seed, &why) &&
                     lab_workspace_create(&t->workspace, bytes, &why) &&
                     lab_mirror_tensors(&t->mirror, ctx, t->tensors, &t->workspace, &why),
                 "%s: %s", line, why.text);
}

static void put_away(bench_top *t) {
    lab_mirror_close(&t->mirror);
    lab_workspace_destroy(&t->workspace);
    lab_tensors_destroy(t->tensors);
    att_plan_destroy(t->plan);
}

/* The answer is on the device: bring it back and judge it. */
static bool answer_holds(bench_top *t, const char *what) {
    lab_message why = {.text = ""};
    lab_verify_result result = {.outcome = LAB_PASS};
    const lab_verify_options options = {.max_work = 20000000};
    if (!lab_mirror_download_outputs(&t->mirror, &why) ||
        !lab_mirror_download_inputs(&t->mirror, &why))
        return check(false, "%s: %s", what, why.text);
    lab_verify_outputs(&result, t->tensors, &options);
    const bool right = check(result.outcome == LAB_PASS, "%s: %s", what, result.message);
    return check(
               lab_tensors_check(t->tensors, &why) && lab_workspace_check(&t->workspace, &why),
               "%s: %s", what, why.text) &&
           right;
}

/* -------------------------------------------------------------- launch records */

static att_context *context_for(const char *kernel) {
    const att_context_options options = {.size = sizeof options,
                                         .device = ATT_DEVICE_CUDA,
                                         .flags = ATT_ALLOW_SLOW,
                                         .kernel = kernel};
    att_context *made = NULL;
    check(att_context_create(&made, &options) == ATT_OK, "no context for %s", kernel);
    return made;
}

/* The words of a problem for what a row has compiled in. */
static const char *feature_words(uint32_t features, const char *dtype, char words[64]) {
    words[0] = '\0';
    if (features & ATT_FEATURE_BIAS)
        snprintf(words, 64, ",bias=%s:1hqk", dtype);
    return features & ATT_FEATURE_PAGES     ? ",paged=16"
           : features & ATT_FEATURE_ALIBI   ? ",alibi"
           : features & ATT_FEATURE_SOFTCAP ? ",softcap=30"
           : features & ATT_FEATURE_MASK    ? ",bias=bool:b1qk,biasfill=padding"
                                            : words;
}

static void problem_of(const att_kernel_info *k, uint32_t features, char *line, size_t n) {
    const char *dtype = k->dtype == ATT_BF16 ? "bf16" : k->dtype == ATT_F32 ? "f32" : "fp16";
    char words[64];
    if (strcmp(k->operation, "merge") == 0)
        snprintf(line, n, "merge:n5b2h4s70d128,%s,data=empty", dtype);
    else if (strcmp(k->operation, "moe") == 0)
        snprintf(line, n, "moe:t70e8k2h128i72,%s", dtype);
    else if (strcmp(k->operation, "backward") == 0)
        snprintf(line, n, "backward:b2h4hkv2s70sk152d%ddv%d,%s,causal=bottom-right%s",
                 (int)k->d_qk, (int)k->d_v, dtype, feature_words(features, dtype, words));
    else
        snprintf(line, n, "b2h4hkv2s%dsk152d%ddv%d,%s,causal=bottom-right,lse%s",
                 strcmp(k->role, "decode") == 0 ? 2 : 70, (int)k->d_qk, (int)k->d_v, dtype,
                 feature_words(features, dtype, words));
}

static bool is_a_step(const char *role) {
    return strcmp(role, "combine") == 0 || strcmp(role, "mask") == 0 ||
           strcmp(role, "step") == 0;
}

/* A row that some problem reaches runs as itself: its id, its registers, the digest of its own code. */
static void test_record_of_row(const att_kernel_info *k, uint32_t features) {
    if (!k->available || is_a_step(k->role))
        return;
    att_context *forced = context_for(k->id);
    char line[128];
    problem_of(k, features, line, sizeof line);
    lab_spec spec;
    lab_verify_result r;
    if (!forced || !check(lab_spec_parse(&spec, line, NULL), "%s is no problem", line))
        return;
    lab_verify_spec(&r, forced, &spec, NULL);
    check(r.outcome == LAB_PASS, "%s on %s: %s", k->id, line, r.message);
    check(strcmp(r.kernel, k->id) == 0, "%s: the record names %s", k->id, r.kernel);
    att_context_info info = {.size = sizeof info};
    att_context_query(forced, &info);
    const att_embedded_code *code = att_embedded_code_find(k->id, info.compute_capability);
    if (k->origin == ATT_FROM_LIBRARY)
        check(code && strcmp(code->sha256, r.launch.code_sha256) == 0,
              "%s: the record's digest is not that of the embedded code", k->id);
    check(r.launch.registers > 0 && r.launch.grid[0] > 0 &&
              r.launch.block[0] * r.launch.block[1] * r.launch.block[2] ==
                  32u * (unsigned)k->warps,
          "%s: the record has %u registers, grid %u, block %u", k->id, r.launch.registers,
          r.launch.grid[0], r.launch.block[0]);
    att_context_destroy(forced);
}

static bool is_for(const att_kernel_info *k, int32_t cc) {
    for (int i = 0; i < 8; i++)
        if (k->targets[i] == cc)
            return true;
    return false;
}

static void test_records(void) {
    att_context_info info = {.size = sizeof info};
    att_context_query(ctx, &info);
    for (size_t i = 0; i < att_kernel_count(); i++) {
        att_kernel_info k = {.size = sizeof k};
        if (att_kernel_query(ctx, i, &k) == ATT_OK && k.device == ATT_DEVICE_CUDA) {
            check(k.available || !is_for(&k, info.compute_capability),
                  "%s is not available here", k.id);
            test_record_of_row(&k, att_registry_row(i)->cuda->features);
        }
    }
}

/* --------------------------------------------------------------- graphs, streams */

static const char *const samples[] = {
    "b2h4s300d64,fp16,causal,lse",
    "b1h4hkv2s257d128,bf16,lse",
    "b2h4s200d64,bf16,softcap=20,alibi,causal,sinks,lse",
    "b2h8hkv2s1sk5000d128,fp16,lse",
    "b4h4hkv2s150d64,bf16,varlen,causal,lse",
    "b2h8hkv2s1sk700d64,fp16,lensk,paged=16,lse",
    "b2h8s700sk77d64,fp16,causal=bottom-right,lse", /* most tiles of rows see no key */
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

/* Captured once, replayed on inputs that were not there when it was captured. */
static void test_graph(const char *line) {
    bench_top a, b;
    lab_device_timer timer;
    lab_message why = {.text = ""};
    double ns;
    if (!set_up(&a, line, 1, NULL) || !set_up(&b, line, 2, NULL))
        return;
    const lab_prepared prepared = lab_prepared_plan(a.plan, &lab_operation_attention);
    if (check(lab_device_timer_open(&timer, &a.mirror, &prepared, 2, &why), "%s: %s", line,
              why.text)) {
        check(lab_device_timer_sample(&timer, &ns, &why) && ns > 0.0, "%s: %s", line, why.text);
        answer_holds(&a, line);
        for (int i = 0; i < LAB_TENSOR_COUNT; i++)
            if (a.tensors->buffer[i].map)
                memcpy(a.tensors->buffer[i].data, b.tensors->buffer[i].data,
                       a.tensors->buffer[i].bytes);
        for (int i = 0; i < LAB_TENSOR_COUNT; i++)
            a.tensors->buffer[i].hash = b.tensors->buffer[i].hash;
        lab_tensors_poison_outputs(a.tensors);
        check(lab_mirror_upload_inputs(&a.mirror, &why) &&
                  lab_mirror_upload_outputs(&a.mirror, &why) &&
                  lab_device_timer_sample(&timer, &ns, &why),
              "%s: %s", line, why.text);
        answer_holds(&a, "a replayed graph on changed data");
        lab_device_timer_close(&timer);
    }
    put_away(&a);
    put_away(&b);
}

/* The default stream by its three names. */
static void test_default_streams(void) {
    void *const streams[] = {NULL, (void *)1, (void *)2};
    for (int i = 0; i < 3; i++) {
        bench_top t;
        if (!set_up(&t, samples[i], 3, NULL))
            continue;
        check(att_plan_run(t.plan, &t.mirror.args, t.mirror.workspace, streams[i]) == ATT_OK,
              "stream %d is refused", i);
        check(att_cuda_device_enter(gpu) == ATT_OK && cu->CtxSynchronize() == CUDA_SUCCESS,
              "stream %d", i);
        att_cuda_device_leave(gpu);
        answer_holds(&t, "a default stream");
        put_away(&t);
    }
}

/* --------------------------------------------------------------------- threads */

enum { THREADS = 8, STREAMS = 2, ROUNDS = 25 };

typedef struct crew {
    const att_plan *plan;
    bench_top top[STREAMS];
    int failures;
} crew;

/* A thread that has never met the GPU: two streams in turn, nothing waits until the end. */
static void *work(void *argument) {
    crew *c = argument;
    for (int n = 0; n < ROUNDS; n++)
        for (int s = 0; s < STREAMS; s++) {
            lab_mirror *m = &c->top[s].mirror;
            c->failures += att_plan_run(c->plan, &m->args, m->workspace, m->stream) != ATT_OK;
        }
    return NULL;
}

static void test_threads(const char *line) {
    static crew crews[THREADS];
    pthread_t threads[THREADS];
    bench_top owner;
    if (!set_up(&owner, line, 0, NULL))
        return;
    bool ready = true;
    for (int i = 0; i < THREADS; i++) {
        crews[i] = (crew){.plan = owner.plan};
        for (int s = 0; s < STREAMS; s++)
            ready =
                set_up(&crews[i].top[s], line, (uint64_t)(10 + 2 * i + s), owner.plan) && ready;
    }
    for (int i = 0; ready && i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, work, &crews[i]) == 0, "no thread");
    for (int i = 0; ready && i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        check(crews[i].failures == 0, "%s: %d runs of a thread failed", line,
              crews[i].failures);
    }
    for (int i = 0; i < THREADS; i++)
        for (int s = 0; s < STREAMS; s++) {
            if (ready)
                answer_holds(&crews[i].top[s], "8 threads, 2 streams each");
            put_away(&crews[i].top[s]);
        }
    put_away(&owner);
}

/* --------------------------------------------------------------------- repeats */

static void test_repeats(const char *line) {
    lab_spec spec;
    lab_verify_result r;
    const lab_verify_options options = {.repeats = 250, .max_work = 20000000};
    if (!check(lab_spec_parse(&spec, line, NULL), "%s is no problem", line))
        return;
    lab_verify_spec(&r, ctx, &spec, &options);
    check(r.outcome == LAB_PASS, "250 times %s: %s", line, r.message);
}

/* ------------------------------------------------------------------- bad arguments */

static void refused(bench_top *t, const att_args *args, void *workspace, att_status status,
                    const char *field, const char *word) {
    const att_status got = att_plan_run(t->plan, args, workspace, t->mirror.stream);
    const att_error *e = att_last_error();
    check(got == status && strcmp(e->field, field) == 0 && strstr(e->text, word),
          "wanted %s of %s with \"%s\", got %s of %s", att_status_name(status), field, word,
          att_status_name(got), e->field);
}

static void *beside(const void *at, ptrdiff_t bytes) {
    return (char *)(uintptr_t)at + bytes;
}

static void test_bad_pointers(void) {
    bench_top t;
    if (!set_up(&t, "b2h2s64d64,fp16,varlen,lse", 4, NULL))
        return;
    const att_args good = t.mirror.args;
    att_args a = good;
    a.q = NULL;
    refused(&t, &a, t.mirror.workspace, ATT_E_ARG, "q", "NULL");
    a = good;
    a.o = NULL;
    refused(&t, &a, t.mirror.workspace, ATT_E_ARG, "o", "NULL");
    a = good;
    a.k = beside(good.k, 2);
    refused(&t, &a, t.mirror.workspace, ATT_E_ARG, "k", "16");
    a = good;
    a.v = beside(good.v, 1);
    refused(&t, &a, t.mirror.workspace, ATT_E_ARG, "v", "16");
    a = good;
    a.q = t.tensors->args.q;
    refused(&t, &a, t.mirror.workspace, ATT_E_ARG, "q", "host");
    a = good;
    a.o = t.tensors->args.o;
    refused(&t, &a, t.mirror.workspace, ATT_E_ARG, "o", "host");
    a = good;
    a.cu_seqlens_q = t.tensors->args.cu_seqlens_q;
    refused(&t, &a, t.mirror.workspace, ATT_E_ARG, "cu_seqlens_q", "host");
    a = good;
    a.o = (void *)(uintptr_t)good.q;
    refused(&t, &a, t.mirror.workspace, ATT_E_ALIAS, "o", "overlaps");
    a = good;
    a.bias = good.q;
    refused(&t, &a, t.mirror.workspace, ATT_E_ARG, "bias", "features");
    a = good;
    check(att_plan_run(t.plan, &good, t.mirror.workspace, t.mirror.stream) == ATT_OK,
          "after refusals a good run fails");
    answer_holds(&t, "after refusals");
    put_away(&t);
}

static void test_bad_workspace(void) {
    bench_top t;
    if (!set_up(&t, "b1h2s1sk20000d64,fp16", 5, NULL))
        return;
    const size_t bytes = att_plan_workspace(t.plan);
    if (!check(bytes > 64, "a long decode takes no workspace"))
        return;
    att_args a = t.mirror.args;
    refused(&t, &a, NULL, ATT_E_WORKSPACE, "workspace", "NULL");
    refused(&t, &a, beside(t.mirror.workspace, 4), ATT_E_WORKSPACE, "workspace", "aligned");
    refused(&t, &a, t.workspace.data, ATT_E_ARG, "workspace", "host");
    a.workspace_size = bytes - 1;
    refused(&t, &a, t.mirror.workspace, ATT_E_WORKSPACE, "workspace_size", "needed");
    a.workspace_size = bytes;
    check(att_plan_run(t.plan, &a, t.mirror.workspace, t.mirror.stream) == ATT_OK,
          "a workspace of the size asked for is refused");
    answer_holds(&t, "a workspace of the size asked for");
    put_away(&t);
}

static void test_other_device(void) {
    if (att_cuda_device_count(NULL, 0) < 2) {
        skip_test("a pointer of another GPU, for want of one");
        return;
    }
    att_cuda_device *second;
    CUdeviceptr memory = 0;
    bench_top t;
    if (!check(att_cuda_device_open(&second, 1) == ATT_OK, "no second GPU") ||
        !set_up(&t, samples[0], 6, NULL))
        return;
    att_cuda_device_enter(second);
    cu->MemAlloc(&memory, 1 << 24);
    att_cuda_device_leave(second);
    att_args a = t.mirror.args;
    a.q = (const void *)(uintptr_t)memory;
    refused(&t, &a, t.mirror.workspace, ATT_E_ARG, "q", "GPU 1");
    att_cuda_device_enter(second);
    cu->MemFree(memory);
    att_cuda_device_leave(second);
    put_away(&t);
}

/* ------------------------------------------------------------------- bad contents */

/* Lengths and page ids that lie: no read or write out of bounds, no fault, and the other sequences are as
 * they were. What the bad sequence gives is not said. */
static void test_bad_content(const char *line, lab_tensor tensor, int64_t index,
                             int32_t value) {
    bench_top t;
    lab_message why = {.text = ""};
    if (!set_up(&t, line, 7, NULL))
        return;
    ((int32_t *)(void *)t.tensors->buffer[tensor].data)[index] = value;
    lab_buffer_seal(&t.tensors->buffer[tensor]);
    check(lab_mirror_upload_inputs(&t.mirror, &why) &&
              att_plan_run(t.plan, &t.mirror.args, t.mirror.workspace, t.mirror.stream) ==
                  ATT_OK &&
              lab_mirror_wait(&t.mirror, &why) &&
              lab_mirror_download_outputs(&t.mirror, &why) &&
              lab_mirror_download_inputs(&t.mirror, &why),
          "%s with %d at %lld: %s", line, value, (long long)index, why.text);
    for (int i = 0; i < LAB_TENSOR_COUNT; i++)
        if (t.tensors->buffer[i].map)
            check(lab_buffer_guarded(&t.tensors->buffer[i]),
                  "%s with %d at %lld: memory beside tensor %d was written", line, value,
                  (long long)index, i);
    put_away(&t);
}

static void test_bad_contents(void) {
    static const int32_t values[] = {-1, INT_MIN, INT_MAX, 1 << 20};
    static const char *const lines[][3] = {
        {"b3h2s100d64,fp16,varlen,causal,lse", "b3h4hkv2s2sk300d64,bf16,lensk,startsk,lse",
         "b3h4hkv2s2sk300d64,fp16,lensk,startsk,paged=16,lse"},
        {"b3h2s100d64,bf16,varlen,softcap=20,lse", "b3h4hkv2s90sk300d64,fp16,lensk,startsk,lse",
         "b3h4hkv2s90sk300d64,bf16,lensk,startsk,paged=16,lse"},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        for (int k = 0; k < 2; k++) {
            for (int64_t at = 0; at < 4; at++) {
                test_bad_content(lines[k][0], LAB_CU_Q, at, values[i]);
                test_bad_content(lines[k][0], LAB_CU_K, at, values[i]);
            }
            test_bad_content(lines[k][1], LAB_LENS_K, 1, values[i]);
            test_bad_content(lines[k][2], LAB_LENS_K, 2, values[i]);
            test_bad_content(lines[k][1], LAB_STARTS_K, 0, values[i]);
            test_bad_content(lines[k][2], LAB_STARTS_K, 2, values[i]);
            test_bad_content(lines[k][2], LAB_PAGE_TABLE, 1, values[i]);
        }
}

/* ------------------------------------------------------------------- cost of a call */

enum { CALLS = 400, BATCHES = 40 };

/* Nanoseconds of a call, the least of many short batches, with the GPU's queue never full. */
static double cost_of(void (*call)(void *context), void *context) {
    double least = INFINITY;
    for (int b = 0; b < BATCHES; b++) {
        const uint64_t before = lab_clock_ns();
        for (int i = 0; i < CALLS; i++)
            call(context);
        const double ns = (double)(lab_clock_ns() - before) / CALLS;
        least = ns < least ? ns : least;
        cu->CtxSynchronize();
    }
    return least;
}

static void call_run(void *context) {
    bench_top *t = context;
    att_plan_run(t->plan, &t->mirror.args, t->mirror.workspace, t->mirror.stream);
}

/* The same launch by the driver's own call, from parameters made beforehand. */
typedef struct bare_launch {
    CUlaunchConfig config;
    CUfunction function;
    att_fwd_params params;
} bare_launch;

static void call_driver(void *context) {
    bare_launch *l = context;
    void *list[] = {&l->params};
    cu->LaunchKernelEx(&l->config, l->function, list, NULL);
}

static bare_launch bare_of(const bench_top *t) {
    const att_cuda_tiling *tiling = t->plan->state;
    const att_cuda_shape *s = &tiling->shape;
    bare_launch l = {.config = {.gridDimX = s->grid[0],
                                .gridDimY = s->grid[1],
                                .gridDimZ = s->grid[2],
                                .blockDimX = s->threads,
                                .blockDimY = 1,
                                .blockDimZ = 1,
                                .sharedMemBytes = s->shared,
                                .hStream = t->mirror.stream},
                     .function = (CUfunction)(void *)tiling->function->kernel,
                     .params = tiling->params};
    l.params.q = t->mirror.args.q;
    l.params.k = t->mirror.args.k;
    l.params.v = t->mirror.args.v;
    l.params.o = t->mirror.args.o;
    return l;
}

/* The host's cost of a run beyond the driver's launch: 3 microseconds at most. Rows of 60 columns are served by no kernel that
 * takes more than the parameters of `bare_launch`. */
static void test_cost(void) {
    bench_top t;
    if (!set_up(&t, "b1h1s128d60,fp16", 8, NULL))
        return;
    bare_launch bare = bare_of(&t);
    att_cuda_device_enter(gpu);
    cost_of(call_run, &t);
    const double driver = cost_of(call_driver, &bare), run = cost_of(call_run, &t);
    att_cuda_device_leave(gpu);
    printf("host cost: att_plan_run %.0f ns a call, the driver's launch %.0f ns, beyond it "
           "%.0f ns\n",
           run, driver, run - driver);
    check(run - driver < 3000.0, "att_plan_run costs %.0f ns beyond the launch", run - driver);
    answer_holds(&t, "after many calls");
    put_away(&t);
}

/* -------------------------------------------------------------------------- a fault */

/* The four tensors are of one size: K gets the highest address, so that it reaches over none of the others. */
static att_args with_k_highest(att_args a) {
    const void *at[] = {a.k, a.q, a.v, a.o};
    for (int i = 1; i < 4; i++)
        if ((uintptr_t)at[i] > (uintptr_t)at[0]) {
            const void *lower = at[0];
            at[0] = at[i];
            at[i] = lower;
        }
    a.k = at[0];
    a.q = at[1];
    a.v = at[2];
    a.o = (void *)(uintptr_t)at[3];
    return a;
}

/* K is said to reach far past its memory, further than tensor maps hold: a kernel serves that needs no workspace, over which K would
 * reach. The run itself is accepted, the device faults, and every later call says so instead of pretending. */
static void test_fault(void) {
    bench_top t;
    lab_message why = {.text = ""};
    if (!set_up(&t, "b1h1s64d64,fp16", 9, NULL))
        return;
    att_problem far = t.spec.problem;
    far.k.row = (int64_t)1 << 40;
    const att_args args = with_k_highest(t.mirror.args);
    att_plan *plan = NULL;
    check(att_plan_create(&plan, ctx, &far) == ATT_OK, "no plan for far rows");
    check(plan && att_plan_run(plan, &args, t.mirror.workspace, t.mirror.stream) == ATT_OK,
          "the faulty run is not accepted");
    check(!lab_mirror_wait(&t.mirror, &why), "the fault is not noticed");
    check(strstr(why.text, "ILLEGAL_ADDRESS") != NULL, "the fault reads: %s", why.text);
    check(
        att_plan_run(t.plan, &t.mirror.args, t.mirror.workspace, t.mirror.stream) == ATT_E_CUDA,
        "a run after the fault does not fail");
    printf("after a fault: %s\n", att_last_error()->text);
    check(att_last_error()->cuda_code != 0, "the driver's code is not kept");
    att_plan_destroy(plan);
}

/* ----------------------------------------------------------------------------- main */

static bool open_gpu(void) {
    const att_context_options options = {.size = sizeof options, .device = ATT_DEVICE_CUDA};
    if (att_context_create(&ctx, &options) != ATT_OK || att_cuda_device_open(&gpu, 0) != ATT_OK)
        return check(false, "no GPU");
    cu = att_cuda_device_driver(gpu);
    att_context_info info = {.size = sizeof info};
    att_context *found = NULL;
    check(att_context_create(&found, NULL) == ATT_OK &&
              att_context_query(found, &info) == ATT_OK && info.device == ATT_DEVICE_CUDA &&
              info.gpu_name[0] && info.compute_capability >= 80,
          "ATT_DEVICE_AUTO does not come to the GPU");
    att_context_destroy(found);
    return true;
}

static void test_all(void) {
    test_records();
    for (int i = 0; i < SAMPLES; i++)
        test_graph(samples[i]);
    test_default_streams();
    test_threads(samples[0]);
    test_threads(samples[3]);
    for (int i = 0; i < SAMPLES; i++)
        test_repeats(samples[i]);
    test_bad_pointers();
    test_bad_workspace();
    test_other_device();
    test_bad_contents();
    test_cost();
}

int main(int argc, char **argv) {
    if (open_gpu()) {
        if (argc > 1 && strcmp(argv[1], "fault") == 0)
            test_fault();
        else
            test_all();
    }
    return say_counts();
}
