/* ablate.c: variants, their verification and timing, and the verdicts on them. */
#include "lab/tune/ablate.h"

#include <stdio.h>
#include <stdlib.h>

#include "lab/base/interrupt.h"

const char *lab_ablation_kind_name(lab_ablation_kind kind) {
    static const char *const names[] = {"all_on", "one_off", "all_off", "cumulative"};
    return names[kind];
}

static void add_step(lab_ablation *a, lab_ablation_kind kind, const char *prefix,
                     const char *name, uint32_t off, size_t against) {
    lab_ablation_step *step = &a->steps[a->count++];
    *step = (lab_ablation_step){.kind = kind, .off = off, .against = against};
    snprintf(step->name, sizeof step->name, "%s%s", prefix, name);
}

/* Step 0 has all switches on; the others are compared with it. */
static void list_steps(lab_ablation *a) {
    const size_t n = a->base.switch_count;
    const uint32_t all = n < 32 ? (1u << n) - 1 : UINT32_MAX;
    add_step(a, LAB_ALL_ON, "all on", "", 0, 0);
    for (size_t i = 0; i < n; i++)
        add_step(a, LAB_ONE_OFF, "without ", a->base.switches[i], 1u << i, 0);
    if (n < 2)
        return; /* with one switch, one off is all off */
    add_step(a, LAB_ALL_OFF, "all off", "", all, 0);
    uint32_t off = all;
    for (size_t i = 0; i + 1 < n; i++) {
        off &= ~(1u << i);
        add_step(a, LAB_CUMULATIVE, "+ ", a->base.switches[i], off, a->count - 1);
    }
}

static bool open_steps(lab_ablation *a, FILE *stream, lab_message *why) {
    for (size_t i = 0; i < a->count; i++) {
        char id[LAB_VARIANT_ID];
        lab_variant variant = a->base.shipped;
        variant.off = a->steps[i].off;
        /* The name says what is off: the same code is compiled once, whichever list it is
         * in. */
        snprintf(id, sizeof id, "user_ablate_%x", variant.off);
        if (!lab_variant_open(&a->contexts[i], &a->base, &variant, id, true, why))
            return false;
        a->cases[i] = (lab_bench_case){.spec = a->base.spec,
                                       .subject = lab_subject_attest(a->contexts[i])};
    }
    lab_variants_compile(a->contexts, a->count, a->base.spec, stream);
    return true;
}

/* Compare `now` with `before`; false if one of them was not timed. */
static bool judge(lab_verdict *out, const lab_bench_case *before, const lab_bench_case *now,
                  uint64_t seed) {
    lab_message why;
    const lab_samples a = lab_bench_samples(before), b = lab_bench_samples(now);
    return before->timed && now->timed &&
           lab_verdict_of(out, &a, &b, LAB_PAIRED, LAB_MINIMUM_EFFECT, seed, &why);
}

static void judge_steps(lab_ablation *a, uint64_t seed) {
    for (size_t i = 1; i < a->count; i++) {
        lab_ablation_step *step = &a->steps[i];
        step->judged = judge(&step->verdict, &a->cases[step->against], &a->cases[i], seed);
    }
    if (a->steps[a->count - 1].kind == LAB_CUMULATIVE)
        a->last_judged = judge(&a->last, &a->cases[a->count - 1], &a->cases[0], seed);
}

bool lab_ablate(lab_ablation *a, att_context *ctx, const lab_spec *spec,
                const lab_bench_options *options, FILE *stream, lab_message *why) {
    *a = (lab_ablation){.count = 0};
    if (!lab_base_find(&a->base, ctx, spec, why))
        return false;
    const size_t most = 2 * a->base.switch_count + 2;
    a->steps = calloc(most, sizeof *a->steps);
    a->cases = calloc(most, sizeof *a->cases);
    a->contexts = calloc(most, sizeof(att_context *));
    if (!a->steps || !a->cases || !a->contexts)
        return lab_fail(why, "no memory for %zu variants", most);
    list_steps(a);
    if (!open_steps(a, stream, why) || !lab_bench_run(a->cases, a->count, options, stream, why))
        return false;
    if (!lab_interrupted()) /* whoever stops a run chooses its samples */
        judge_steps(a, options->seed);
    return true;
}

void lab_ablation_free(lab_ablation *a) {
    if (a->cases)
        lab_bench_free(a->cases, a->count);
    for (size_t i = 0; a->contexts && i < a->count; i++)
        att_context_destroy(a->contexts[i]);
    free(a->steps);
    free(a->cases);
    free(a->contexts);
    *a = (lab_ablation){.count = 0};
}
