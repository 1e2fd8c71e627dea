/* self_check.c: attest bench --aa and --inject. */
#include "cli/self_check.h"

#include <math.h>
#include <stdlib.h>

#include "cli/bench_report.h"
#include "cli/verdict_report.h"
#include "lab/base/clock.h"
#include "lab/base/table.h"
#include "lab/measure/bench.h"
#include "lab/measure/bench_json.h"
#include "lab/problem/problem_json.h"

/* The fraction of verdicts that must be right. */
static const double share_wanted = 0.95;

/* The trials: cases[trial][problem][side], verdicts[trial][problem]. */
typedef struct check {
    cli_session *session;
    lab_bench_options options;
    size_t problems, trials;
    lab_bench_case *cases;
    lab_verdict *verdicts;
    bool *judged; /* both sides of the pair were timed */
    lab_verdict_kind expected;
    size_t pairs, right, of[4];
    double minimum_effect;
    double device_seconds;
} check;

static lab_bench_case *side(const check *k, size_t trial, size_t problem, size_t which) {
    return &k->cases[2 * (trial * k->problems + problem) + which];
}

static bool create(check *k, cli_session *session) {
    const cli_options *o = session->options;
    *k = (check){.session = session,
                 .options = cli_bench_options(o),
                 .problems = session->spec_count,
                 .trials = (size_t)o->check_trials,
                 .expected = o->inject > 0.0 ? LAB_SLOWER : LAB_SAME};
    const size_t pairs = k->problems * k->trials;
    k->cases = calloc(2 * pairs, sizeof *k->cases);
    k->verdicts = calloc(pairs, sizeof *k->verdicts);
    k->judged = calloc(pairs, sizeof *k->judged);
    if (!k->cases || !k->verdicts || !k->judged)
        return cli_complain(o, "out of memory");
    /* The clock is tested here: answers are checked, but only briefly. */
    k->options.warmup_seconds = fmin(k->options.warmup_seconds, 0.02);
    k->options.judge_work = 2000000;
    if (o->inject > 0.0)
        k->options.calls_multiple = (size_t)ceil(1.0 / o->inject);
    for (size_t i = 0; i < pairs; i++) {
        lab_bench_case *a = &k->cases[2 * i], *b = a + 1;
        a->spec = b->spec = &session->specs[i % k->problems];
        a->subject = b->subject = session->subjects[0];
        a->twin = i < k->problems ? NULL : side(k, 0, i % k->problems, 0);
        b->twin = a;
        b->slowdown = o->inject;
    }
    return true;
}

static void destroy(check *k) {
    lab_bench_free(k->cases, k->cases ? 2 * k->problems * k->trials : 0);
    free(k->cases);
    free(k->verdicts);
    free(k->judged);
}

/* After the first trial: print how long the others will take, if that is long. */
static void tell_duration(const check *k, uint64_t start) {
    const double trial = 1e-9 * (double)(lab_clock_ns() - start);
    const double left = trial * (double)(k->trials - 1);
    if (left > 5.0)
        fprintf(stderr, "note: a trial takes %.1f s, the %zu that follow about %.0f s\n", trial,
                k->trials - 1, left);
}

static bool measure(check *k, lab_message *why) {
    const uint64_t start = lab_clock_ns();
    const uint64_t seed = k->options.seed;
    const double minimum = k->session->options->minimum_effect > 0.0
                               ? k->session->options->minimum_effect
                               : LAB_MINIMUM_EFFECT;
    bool ok = true;
    for (size_t t = 0; ok && t < k->trials; t++) {
        k->options.seed = seed + t;
        if (t == 1)
            tell_duration(k, start);
        ok = lab_bench_run(side(k, t, 0, 0), 2 * k->problems, &k->options, stderr, why);
        for (size_t p = 0; ok && p < k->problems; p++) {
            const lab_bench_case *a = side(k, t, p, 0), *b = side(k, t, p, 1);
            const size_t pair = t * k->problems + p;
            k->judged[pair] = a->timed && b->timed;
            if (!k->judged[pair])
                continue;
            const lab_samples of_a = lab_bench_samples(a), of_b = lab_bench_samples(b);
            ok = lab_verdict_of(&k->verdicts[pair], &of_a, &of_b, LAB_PAIRED, minimum, seed + t,
                                why);
            k->of[k->verdicts[pair].kind] += ok;
            k->pairs += ok;
        }
    }
    k->options.seed = seed;
    k->right = k->of[k->expected];
    k->device_seconds = 1e-9 * (double)(lab_clock_ns() - start);
    return ok;
}

/* Over the pairs that were judged. */
static void find_minimum_effect(check *k) {
    lab_verdict *judged = calloc(k->pairs ? k->pairs : 1, sizeof *judged);
    size_t count = 0;
    for (size_t i = 0; judged && i < k->problems * k->trials; i++)
        if (k->judged[i])
            judged[count++] = k->verdicts[i];
    k->minimum_effect = lab_minimum_effect(judged, count);
    free(judged);
}

/* ------------------------------------------------------------------------- reporting */

static const lab_table_column columns[] = {
    {"problem", LAB_TABLE_LEFT},    {"kernel", LAB_TABLE_LEFT},   {"trial", LAB_TABLE_RIGHT},
    {"median us", LAB_TABLE_RIGHT}, {"samples", LAB_TABLE_RIGHT}, {"effect", LAB_TABLE_LEFT},
    {"verdict", LAB_TABLE_VERDICT},
};

static void put_table(const check *k) {
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < k->problems * k->trials; i++) {
        const lab_bench_case *a = &k->cases[2 * i];
        char line[LAB_SPEC_MAX], effect[64];
        lab_spec_print(a->spec, line, sizeof line);
        lab_table_cell(table, "%s", line);
        lab_table_cell(table, "%s", a->verify.kernel);
        lab_table_cell(table, "%zu", i / k->problems + 1);
        if (k->judged[i]) {
            cli_format_effect(&k->verdicts[i], effect, sizeof effect);
            lab_table_cell(table, "%.3f", a->ns.median / 1e3);
            lab_table_cell(table, "%zu", a->sample_count);
            lab_table_cell(table, "%s", effect);
            lab_table_cell(table, "%s", lab_verdict_name(k->verdicts[i].kind));
        } else {
            lab_table_cell(table, "not timed");
        }
        lab_table_end_row(table);
    }
    lab_table_print(table, k->session->text);
    lab_table_destroy(table);
}

static void put_sum(const check *k) {
    FILE *text = k->session->text;
    const double share = k->pairs ? (double)k->right / (double)k->pairs : 0.0;
    fprintf(text, "\n%zu of %zu verdicts are %s (%.1f %%): %zu FASTER, %zu SAME, %zu SLOWER, ",
            k->right, k->pairs, lab_verdict_name(k->expected), 100.0 * share, k->of[LAB_FASTER],
            k->of[LAB_SAME], k->of[LAB_SLOWER]);
    fprintf(text, "%zu AMBIGUOUS\n", k->of[LAB_AMBIGUOUS]);
    if (k->expected == LAB_SAME)
        fprintf(text, "minimum effect of rivals in turn: %.2f %%\n", 100.0 * k->minimum_effect);
}

static json_t *pair_object(const check *k, size_t i) {
    const lab_bench_case *a = &k->cases[2 * i];
    json_t *object = json_pack("{s:o, s:I}", "problem", lab_json_problem(a->spec), "trial",
                               1 + (json_int_t)(i / k->problems));
    if (k->judged[i]) {
        json_object_set_new(object, "a", lab_json_bench_case(a, &k->options));
        json_object_set_new(object, "b", lab_json_bench_case(a + 1, &k->options));
        json_object_set_new(object, "verdict", lab_json_verdict(&k->verdicts[i]));
    }
    return object;
}

/* A result file with the results of the first trial, so that an A/A run also serves as a
 * baseline. */
static json_t *document_of(const check *k) {
    json_t *document = lab_json_bench_document(k->session->ctx[0], &k->options);
    json_t *pairs = json_array(), *results = json_object_get(document, "results");
    for (size_t i = 0; i < k->problems; i++)
        json_array_append_new(results, lab_json_bench_case(side(k, 0, i, 0), &k->options));
    for (size_t i = 0; i < k->problems * k->trials; i++)
        json_array_append_new(pairs, pair_object(k, i));
    json_object_set_new(document, "device_seconds", lab_json_number(k->device_seconds));
    if (k->expected == LAB_SAME)
        json_object_set_new(document, "minimum_effect", lab_json_number(k->minimum_effect));
    json_object_set_new(
        document, "self_check",
        json_pack("{s:s, s:f, s:s, s:I, s:I, s:I, s:o}", "kind",
                  k->expected == LAB_SAME ? "aa" : "inject", "slowdown",
                  k->session->options->inject, "expected", lab_verdict_name(k->expected),
                  "verdicts", (json_int_t)k->pairs, "right", (json_int_t)k->right, "trials",
                  (json_int_t)k->trials, "pairs", pairs));
    return document;
}

static cli_exit outcome_of(const check *k) {
    cli_tally tally = {0};
    for (size_t i = 0; i < 2 * k->problems * k->trials; i++) {
        const lab_bench_case *c = &k->cases[i];
        cli_put_failure(k->session, 0, c->spec, &c->verify);
        cli_tally_add(&tally, &c->subject, &c->verify);
    }
    const cli_exit outcome = cli_tally_exit(&tally);
    if (outcome != CLI_HOLDS)
        return outcome;
    return (double)k->right >= share_wanted * (double)k->pairs ? CLI_HOLDS : CLI_CHECK_FAILED;
}

cli_exit cli_self_check(cli_session *session) {
    check k = {.session = session};
    cli_sink save = {.stream = NULL};
    lab_message why;
    cli_exit result = CLI_NOT_POSSIBLE;
    if (cli_open_save(&save, session->options) && create(&k, session)) {
        if (measure(&k, &why)) {
            find_minimum_effect(&k);
            put_table(&k);
            put_sum(&k);
            result = cli_finish_bench(session, &save, document_of(&k), outcome_of(&k));
        } else {
            cli_complain(session->options, "%s", why.text);
        }
    }
    destroy(&k);
    cli_sink_discard(&save);
    return result;
}
