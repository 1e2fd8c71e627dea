/* ablate_json.c: an ablation as JSON. */
#include "lab/base/json.h"
#include "lab/problem/problem_json.h"
#include "lab/tune/ablate.h"
#include "lab/verify/verify_json.h"

static json_t *switches_object(const lab_base *base, uint32_t off) {
    json_t *object = json_object();
    for (size_t i = 0; i < base->switch_count; i++)
        json_object_set_new(object, base->switches[i], json_boolean(!(off & (1u << i))));
    return object;
}

static json_t *contribution_object(const lab_verdict *v, const char *against) {
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "against", against, "verdict",
                     lab_verdict_name(v->kind), "effect", lab_json_number(v->effect), "low",
                     lab_json_number(v->low), "high", lab_json_number(v->high), "p_different",
                     lab_json_number(v->p_different), "minimum_effect",
                     lab_json_number(v->minimum_effect));
}

static json_t *variant_object(const lab_ablation *a, size_t i) {
    static const char *const outcomes[] = {
        [LAB_PASS] = "pass", [LAB_FAIL] = "fail", [LAB_REFUSED] = "refused"};
    const lab_ablation_step *step = &a->steps[i];
    const lab_bench_case *c = &a->cases[i];
    json_t *object =
        json_pack("{s:s, s:s, s:o, s:s, s:s, s:o}", "name", step->name, "kind",
                  lab_ablation_kind_name(step->kind), "switches",
                  switches_object(&a->base, step->off), "outcome", outcomes[c->verify.outcome],
                  "message", c->verify.message, "verify", lab_json_verify(&c->verify));
    json_object_set_new(object, "samples_ns",
                        lab_json_numbers(c->samples_ns, c->timed ? c->sample_count : 0));
    if (c->timed) {
        json_object_set_new(object, "calls_per_sample",
                            json_integer((json_int_t)c->calls_per_sample));
        json_object_set_new(object, "median_ns", lab_json_number(c->ns.median));
        json_object_set_new(object, "low_ns", lab_json_number(c->ns.low));
        json_object_set_new(object, "high_ns", lab_json_number(c->ns.high));
        json_object_set_new(object, "launch", lab_json_launch(&c->launch));
    }
    if (step->judged)
        json_object_set_new(object, "contribution",
                            contribution_object(&step->verdict, a->steps[step->against].name));
    return object;
}

json_t *lab_ablation_object(const lab_ablation *a) {
    json_t *switches = json_array(), *variants = json_array();
    for (size_t i = 0; i < a->base.switch_count; i++)
        json_array_append_new(switches, json_pack("{s:s, s:s}", "name", a->base.switches[i],
                                                  "text", a->base.switch_texts[i]));
    for (size_t i = 0; i < a->count; i++)
        if (!a->cases[i].unreached)
            json_array_append_new(variants, variant_object(a, i));
    json_t *object =
        json_pack("{s:s, s:o, s:s, s:o, s:o}", "kernel", a->base.id, "problem",
                  lab_json_problem(a->base.spec), "source_sha256", a->base.source_sha256,
                  "switches", switches, "variants", variants);
    if (a->last_judged)
        json_object_set_new(object, "last_step",
                            contribution_object(&a->last, a->steps[a->count - 1].name));
    return object;
}
