/* doctor_smoke.c: launches one problem, checks its launch record against the plan and its
 * answer against the oracle, and times five runs of it. */
#include <stdio.h>
#include <string.h>

#include "cuda/embed.h"
#include "cuda/shape.h"
#include "lab/base/json.h"
#include "lab/doctor/doctor.h"
#include "lab/measure/bench.h"
#include "lab/problem/problem_json.h"
#include "lab/verify/verify_json.h"
#include "core/registry.h"

enum { ITERATIONS = 5 };

/* A time that varies by more than this percentage of its median says little. */
static const double spread_most = 50.0;

static const char report_it[] =
    "this must not happen: report it with the output of `attest doctor --json -`";

static const att_kernel_row *row_of(const char *id) {
    for (size_t i = 0; i < att_registry_count(); i++)
        if (strcmp(att_registry_row(i)->id, id) == 0)
            return att_registry_row(i);
    return NULL;
}

/* The record describes the code that ran: a difference from the plan means that other code
 * ran. */
static bool check_record(lab_doctor *doctor, const char *what, const att_launch *launch,
                         const char *meant) {
    const char *ran = launch->kernel ? launch->kernel : "nothing";
    const att_kernel_row *row = row_of(ran);
    if (strcmp(ran, meant) != 0 || !row) {
        lab_doctor_add(doctor, LAB_FAILED, what, report_it, "expected %s to run, but %s ran",
                       meant, ran);
        return false;
    }
    if (!row->cuda)
        return true;
    const uint32_t threads = att_cuda_kernel_threads(row->cuda);
    const uint32_t shared = att_cuda_kernel_shared(row->cuda);
    if (launch->block[0] != threads || launch->shared_bytes != shared || launch->grid[0] == 0) {
        lab_doctor_add(
            doctor, LAB_FAILED, what, report_it,
            "%s ran with %u threads and %llu bytes per block, but its row has %u and %u", ran,
            launch->block[0], (unsigned long long)launch->shared_bytes, threads, shared);
        return false;
    }
    return true;
}

/* "the machine code of the build, sha256 ..."; false if the digest is not the build's. */
static bool describe_code(const att_launch *launch, int cc, char *buf, size_t n) {
    const att_embedded_code *code = att_embedded_code_find(launch->kernel, cc);
    if (!code)
        code = att_embedded_code_find(launch->kernel, 0);
    if (!code) {
        snprintf(buf, n, "compiled here, sha256 %.16s...", launch->code_sha256);
        return true;
    }
    const bool same = strcmp(code->sha256, launch->code_sha256) == 0;
    snprintf(buf, n, "%s, sha256 %.16s... %s", code->cc ? "machine code" : "PTX",
             launch->code_sha256, same ? "as built" : "but the build has ");
    if (!same)
        snprintf(buf + strlen(buf), n - strlen(buf), "%.16s...", code->sha256);
    return same;
}

static void add_launch(lab_doctor *doctor, const char *what, const att_launch *launch, int cc) {
    char code[160];
    if (cc == 0) {
        lab_doctor_add(doctor, LAB_FINE, what, NULL,
                       "%s ran, as intended: %u tasks on %u threads; the answer is right",
                       launch->kernel, launch->grid[0], launch->block[0]);
        return;
    }
    const bool same = describe_code(launch, cc, code, sizeof code);
    const char *jit =
        "ATTEST_JIT or a switch recompiles built-in kernels; otherwise the file is damaged";
    lab_doctor_add(
        doctor, same ? LAB_FINE : LAB_WARN, what, same ? NULL : jit,
        "%s ran, as intended: grid %u x %u x %u, block %u, %llu bytes of shared memory, %u "
        "registers, %s; the answer is right",
        launch->kernel, launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
        (unsigned long long)launch->shared_bytes, launch->registers, code);
}

static void add_time(lab_doctor *doctor, const char *what, const lab_bench_case *c) {
    const double us = c->ns.median / 1e3, gflops = lab_bench_gflops(c, c->ns.median);
    if (c->floor_ns > 0.0 && c->ns.median < c->floor_ns)
        lab_doctor_add(doctor, LAB_FAILED, what, report_it,
                       "%.2f us is below the %.2f us that this GPU needs at least: the "
                       "measurement is wrong",
                       us, c->floor_ns / 1e3);
    else if (c->ns.spread_percent > spread_most)
        lab_doctor_add(doctor, LAB_WARN, what, "run nothing else while attest measures",
                       "%d runs, median %.4g us, %.4g GFLOP/s, but they scatter by %.0f %%",
                       ITERATIONS, us, gflops, c->ns.spread_percent);
    else
        lab_doctor_add(doctor, LAB_FINE, what, NULL,
                       "%d runs, median %.4g us, %.4g GFLOP/s; the last answer is right",
                       ITERATIONS, us, gflops);
}

/* Verify and time `spec`; failures become findings. */
static void examine(lab_doctor *doctor, const char *what, lab_bench_case *c, const char *meant,
                    int cc, FILE *stream) {
    const lab_bench_options options = {
        .min_samples = ITERATIONS, .max_samples = ITERATIONS, .warmup_seconds = 0.02};
    lab_message why;
    if (!lab_bench_run(c, 1, &options, stream, &why)) {
        lab_doctor_add(doctor, LAB_FAILED, what, "free some memory", "%s", why.text);
        return;
    }
    if (!c->timed) {
        const bool wrong = c->verify.outcome == LAB_FAIL && c->verify.status == ATT_OK;
        lab_doctor_add(doctor, LAB_FAILED, what,
                       wrong ? report_it : "check what the message names", "%s%s: %s",
                       wrong ? "a wrong answer of " : "could not run ", meant,
                       c->verify.message);
        return;
    }
    if (!check_record(doctor, what, &c->launch, meant))
        return;
    add_launch(doctor, what, &c->launch, cc);
    add_time(doctor, "bench", c);
    json_array_append_new(
        doctor->smoke,
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "device", what, "problem",
                  lab_json_problem(c->spec), "launch", lab_json_launch(&c->launch), "verify",
                  lab_json_verify(&c->verify), "median_ns", lab_json_number(c->ns.median),
                  "samples_ns", lab_json_numbers(c->samples_ns, c->sample_count)));
}

static void smoke(lab_doctor *doctor, att_device device, int index, FILE *stream) {
    const bool gpu = device == ATT_DEVICE_CUDA;
    const att_context_options options = {
        .size = sizeof options,
        .device = device,
        .device_index = index,
        .flags = ATT_ALLOW_UNATTESTED}; /* the answer is checked here */
    char what[24];
    snprintf(what, sizeof what, gpu ? "run cuda:%d" : "run cpu", index);
    lab_spec spec;
    lab_message why;
    att_context *ctx = NULL;
    att_plan *plan = NULL;
    att_context_info info = {.size = sizeof info};
    if (!lab_spec_parse(&spec, gpu ? "b2h8s512d64,causal" : "b1h4s256d64,causal", &why))
        lab_doctor_add(doctor, LAB_FAILED, what, report_it, "%s", why.text);
    else if (att_context_create(&ctx, &options) != ATT_OK ||
             att_context_query(ctx, &info) != ATT_OK ||
             att_plan_create(&plan, ctx, &spec.problem) != ATT_OK)
        lab_doctor_add(doctor, LAB_FAILED, what, "check what the message names", "%s",
                       att_last_error()->text);
    else {
        lab_bench_case c = {.spec = &spec, .subject = lab_subject_attest(ctx)};
        examine(doctor, what, &c, att_plan_kernel(plan), (int)info.compute_capability, stream);
        lab_bench_free(&c, 1);
    }
    att_plan_destroy(plan);
    att_context_destroy(ctx);
}

void lab_doctor_smoke(lab_doctor *doctor, FILE *stream) {
    doctor->smoke = json_array();
    if (doctor->device != ATT_DEVICE_CUDA)
        smoke(doctor, ATT_DEVICE_CPU, 0, stream);
    if (doctor->device != ATT_DEVICE_CPU && doctor->gpus > doctor->device_index)
        smoke(doctor, ATT_DEVICE_CUDA, doctor->device_index, stream);
}
