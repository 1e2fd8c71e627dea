/* audit.c: verifies and times saboteurs one by one. */
#include "lab/evidence/audit.h"

#include <stdlib.h>

#include "lab/base/interrupt.h"
#include "lab/base/json.h"
#include "lab/base/progress.h"
#include "lab/problem/problem_json.h"

/* The problems of an operation, per device and stage. */
typedef struct stages {
    const lab_operation *operation;
    const char *cpu[LAB_STAGES], *gpu[LAB_STAGES];
} stages;

/* For attention, rows and keys differ, so that the causal diagonal has two corners; float16 has
 * bits to drop. The GPU problem is large enough that a call takes longer than a launch. Rivals
 * are compared on problems limited by memory: for merge, long rows of float32; for backward, a
 * cache that is mostly unused; for moe, experts of which one token uses few. Some CPU-only
 * saboteurs need calls too short for the clock, or heads of which few change; for merge in
 * float32, where no bit is lost in rounding O. */
static const stages problems[] = {
    {.operation = &lab_operation_attention,
     .cpu = {"b1h4hkv2s48sk80d64,fp16,causal=bottom-right", "b1h8s1sk2048d64,fp16",
             "b1h1s8d32,fp16", "b4h16s16sk32d64,fp16"},
     .gpu = {"b2h16hkv8s512sk640d64,fp16,causal=bottom-right", "b8h32hkv8s1sk1024d128,fp16"}},
    {.operation = &lab_operation_backward,
     .cpu = {"backward:b1h4hkv2s48sk80d64,fp16,causal=bottom-right",
             "backward:b1h4s8sk8192d64,fp16,lensk=32", "backward:b1h1s8d32,fp16"},
     .gpu = {"backward:b2h16hkv8s512sk640d64,fp16,causal=bottom-right",
             "backward:b8h32hkv8s1sk1024d128,fp16"}},
    {.operation = &lab_operation_merge,
     .cpu = {"merge:n4b1h4s48d64,fp16", "merge:n2b1h1s128d1024,f32", "merge:n2b1h1s8d64,f32"},
     .gpu = {"merge:n4b2h16s512d64,fp16", "merge:n8b4h32s256d128,f32"}},
    {.operation = &lab_operation_moe,
     .cpu = {"moe:t96e8k3h64i48,fp16,ids,weights,counts", "moe:t1e16k2h256i256,f32",
             "moe:t1e2k1h16i8,f32"},
     .gpu = {"moe:t512e16k4h512i256,fp16,ids,weights,counts", "moe:t8e64k4h1024i512,fp16"}},
};

static const lab_bench_options bench_options = {
    .min_samples = 8, .max_samples = 12, .seconds = 0.05, .warmup_seconds = 0.005};

/* Samples of short calls are cheap, and some must be free of the machine's noise. */
enum { SHORT_SAMPLES = 40 };

const char *lab_audit_outcome_name(lab_audit_outcome outcome) {
    static const char *const names[] = {"caught", "MISSED", "passed", "ACCUSED", "left out"};
    return names[outcome];
}

static lab_audit_outcome outcome_of(const lab_bench_case *c, bool honest) {
    if (honest)
        return c->timed ? LAB_AUDIT_PASSED : LAB_AUDIT_ACCUSED;
    return c->verify.outcome == LAB_FAIL ? LAB_AUDIT_CAUGHT : LAB_AUDIT_MISSED;
}

static bool play(lab_audit_result *r, att_context *ctx, uint64_t seed, FILE *silent,
                 lab_message *why) {
    lab_bench_case c = {.spec = &r->spec, .subject = lab_saboteur_subject(r->saboteur, ctx)};
    lab_bench_options seeded = bench_options;
    seeded.seed = seed;
    if (lab_saboteur_stage(r->saboteur) == LAB_STAGE_SHORT)
        seeded.min_samples = seeded.max_samples = SHORT_SAMPLES;
    const bool ok = lab_bench_run(&c, 1, &seeded, silent, why);
    r->outcome = outcome_of(&c, lab_saboteur_honest(r->saboteur));
    r->timed = c.calls_per_sample > 0;
    snprintf(r->message, sizeof r->message, "%s", c.verify.message);
    lab_bench_free(&c, 1);
    return ok;
}

static void count(lab_audit *audit, lab_audit_outcome outcome) {
    size_t *const counters[] = {&audit->caught, &audit->missed, &audit->passed, &audit->accused,
                                &audit->left_out};
    ++*counters[outcome];
}

/* The problem that a saboteur is played on; NULL: there is none for it on this device. */
static const char *problem_of(const lab_saboteur *s, const lab_operation *operation,
                              att_device device, const lab_audit_options *options) {
    const lab_stage stage = lab_saboteur_stage(s);
    const char *problem = NULL;
    if (stage == LAB_STAGE_PLAIN)
        problem = options->plain;
    else if (stage == LAB_STAGE_RIVAL)
        problem = options->rival;
    for (size_t i = 0; !problem && i < sizeof problems / sizeof problems[0]; i++)
        if (problems[i].operation == operation)
            problem = (device == ATT_DEVICE_CUDA ? problems[i].gpu : problems[i].cpu)[stage];
    return problem;
}

/* The operation of the audit: that of the given problem. */
static bool find_operation(const lab_operation **operation, const lab_audit_options *options,
                           lab_message *why) {
    lab_spec spec;
    *operation = lab_operation_at(0);
    if (!options->plain)
        return true;
    if (!lab_spec_parse(&spec, options->plain, why))
        return false;
    *operation = spec.operation;
    return !spec.operation->is_void(&spec) ||
           lab_fail(why, "%s: there is nothing to compute", options->plain);
}

/* Whether the saboteur does not apply to such a problem; the message then says why. */
static bool is_left_out(lab_audit_result *r, const lab_operation *operation) {
    const lab_operation *own = lab_saboteur_operation(r->saboteur);
    if (own && own != operation)
        snprintf(r->message, sizeof r->message, "applies to %s only", own->library->name);
    else if (lab_saboteur_idle(r->saboteur, &r->spec))
        snprintf(r->message, sizeof r->message, "has no effect on this problem");
    return *r->message;
}

static bool play_or_leave(lab_audit_result *r, att_context *ctx, const lab_operation *operation,
                          const char *problem, uint64_t seed, FILE *silent, lab_message *why) {
    if (problem && !lab_spec_parse(&r->spec, problem, why))
        return false;
    if (!problem)
        operation->init(&r->spec);
    if (!is_left_out(r, operation))
        return problem ? play(r, ctx, seed, silent, why)
                       : lab_fail(why, "%s has no problem of %s to run on",
                                  lab_saboteur_name(r->saboteur), operation->library->name);
    r->outcome = LAB_AUDIT_LEFT_OUT;
    return true;
}

bool lab_audit_run(lab_audit *audit, att_context *ctx, const lab_audit_options *options,
                   FILE *stream, lab_message *why) {
    att_context_info info = {.size = sizeof info};
    const lab_operation *operation;
    *audit = (lab_audit){.results = calloc(lab_saboteur_count, sizeof *audit->results)};
    if (!audit->results || att_context_query(ctx, &info) != ATT_OK)
        return lab_fail(why, "no memory");
    if (!find_operation(&operation, options, why))
        return false;
    /* The harness's own progress bars would flicker below this one. */
    FILE *silent = fopen("/dev/null", "w");
    lab_progress bar;
    lab_progress_start(&bar, stream, "auditing", lab_saboteur_count);
    bool ok = silent || lab_fail(why, "/dev/null cannot be opened");
    for (size_t i = 0; ok && i < lab_saboteur_count; i++) {
        const lab_saboteur *s = lab_saboteur_at(i);
        if (!lab_saboteur_plays(s, info.device))
            continue;
        audit->total++;
        if (lab_interrupted())
            continue;
        lab_progress_update(&bar, i, lab_saboteur_name(s));
        lab_audit_result *r = &audit->results[audit->count++];
        r->saboteur = s;
        ok = play_or_leave(r, ctx, operation, problem_of(s, operation, info.device, options),
                           options->seed, silent, why);
        if (lab_interrupted())
            audit->count--; /* its samples ended early: nothing can be said about it */
        else if (ok)
            count(audit, r->outcome);
    }
    lab_progress_end(&bar);
    if (silent)
        fclose(silent);
    return ok;
}

static const char *stage_of(const lab_audit_result *r) {
    return r->outcome == LAB_AUDIT_LEFT_OUT ? NULL : r->timed ? "bench" : "verify";
}

void lab_audit_free(lab_audit *audit) {
    free(audit->results);
    *audit = (lab_audit){.results = NULL};
}

json_t *lab_audit_json(const lab_audit *audit) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < audit->count; i++) {
        const lab_audit_result *r = &audit->results[i];
        json_array_append_new(
            array,
            json_pack(
                "{s:s, s:s, s:b, s:o, s:s, s:s?, s:s}", "name", lab_saboteur_name(r->saboteur),
                "deed", lab_saboteur_deed(r->saboteur), "honest",
                lab_saboteur_honest(r->saboteur), "problem",
                r->outcome == LAB_AUDIT_LEFT_OUT ? json_null() : lab_json_problem(&r->spec),
                "outcome", lab_audit_outcome_name(r->outcome), "stage", stage_of(r), "check",
                r->message));
    }
    return array;
}
