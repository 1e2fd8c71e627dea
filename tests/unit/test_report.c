/* test_report.c: reports from small result files: their contents, and that nothing in a file
 * can break them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "lab/report/report_view.h"

/* ------------------------------------------------------------------- the documents */

/* Attest beats one rival, loses to the other, and is wrong on the last problem. */
static const char bench_text[] =
    "{'schema': 'attest-bench-2', 'attest': '0.2.0', 'made': '2026-11-15', 'compiler': 'gcc "
    "12', "
    "'device_seconds': 12.5, 'load_average_before': 0.5, 'machine': {'processor': 'A CPU', "
    "'device': 'cuda', 'os': 'Linux', 'driver': '580.1', 'gpu': {'name': 'NVIDIA H200', "
    "'uuid': 'GPU-1', 'multiprocessors': 132}}, 'results': ["
    "{'problem': {'spec': 'b1h8s512d64,fp16'}, 'subject': 'attest', 'kernel': 'fwd_a', "
    "'timed': true, "
    "'verify': {'outcome': 'pass'}, 'median_ns': 1000, 'floor_ns': 400, 'calls_per_sample': 2, "
    "'clocks_mhz': [1900, 1980], 'power_w': [300], 'samples_ns': "
    "[1000, 1001, 999, 1002, 998, 1000, 1001, 999]}, "
    "{'problem': {'spec': 'b1h8s512d64,fp16'}, 'subject': 'slow 1.0', 'kernel': 'x', 'timed': "
    "true, "
    "'verify': {'outcome': 'pass'}, 'median_ns': 1500, 'calls_per_sample': 2, 'samples_ns': "
    "[1500, 1501, 1499, 1502, 1498, 1500, 1501, 1499]}, "
    "{'problem': {'spec': 'b1h8s512d64,fp16'}, 'subject': 'quick 2.0', 'kernel': 'y', 'timed': "
    "true, "
    "'verify': {'outcome': 'pass'}, 'median_ns': 800, 'calls_per_sample': 2, 'samples_ns': "
    "[800, 801, 799, 802, 798, 800, 801, 799]}, "
    "{'problem': {'spec': 'b1h8s128d64,fp16'}, 'subject': 'attest', 'timed': false, "
    "'verify': {'outcome': 'fail', 'kernel': 'fwd_b', 'message': 'row 7 is wrong'}}]}";

static const char ladder_text[] =
    "{'schema': 'attest-bench-1', 'attest': '0.1.0', 'compiler': 'gcc 12', "
    "'machine': {'processor': 'A CPU', 'device': 'cuda', 'gpu': {'name': 'NVIDIA H200'}}, "
    "'results': ["
    "{'problem': {'spec': 'b1h8s512d64,fp16'}, 'kernel': 'naive', 'timed': true, "
    "'verify': {'outcome': 'pass'}, 'median_ns': 90000, 'floor_ns': 400, 'calls_per_sample': "
    "1, "
    "'samples_ns': [90000, 90100, 89900]}, "
    "{'problem': {'spec': 'b1h8s512d64,fp16'}, 'kernel': 'fwd_a', 'timed': true, "
    "'verify': {'outcome': 'pass'}, 'median_ns': 1100, 'floor_ns': 400, 'calls_per_sample': 1, "
    "'samples_ns': [1100, 1101, 1099, 1100, 1101, 1099]}]}";

static const char gpu_torch_text[] =
    "{'schema': 'attest-gpu-vs-torch-1', 'attest': '0.1.0', 'device': {'card': 'NVIDIA H200, "
    "GPU-1, "
    "580.1, 700.00 W, 1980 MHz', 'torch': '2.11.0+cu130', 'cudnn': 91900}, 'rounds': 6, "
    "'rows': ["
    "{'group': 'forward', 'problem': 'b1h8s512d64,bf16', 'launch': {'kernel': 'fwd_a'}, "
    "'calls_per_sample': 8, 'samples_us': {'attest': [10, 10.1, 9.9, 10, 10.1, 9.9], "
    "'flash': [12, 12.1, 11.9, 12, 12.1, 11.9], 'cudnn': [7, 7.1, 6.9, 7, 7.1, 6.9]}}]}";

static const char cpu_torch_text[] =
    "{'schema': 'attest-cpu-vs-torch-1', 'torch': '2.11.0', 'peaks': {'2': {'cpu': 'A CPU', "
    "'threads': 2, 'fma_gflops': 230.4, 'amx_gflops': null, 'l3_gbs': 197.1, 'dram_gbs': "
    "48.7}}, "
    "'rows': [{'kind': 'f32', 'dtype': 'f32', 'threads': 2, 'b': 1, 'hq': 8, 'hkv': 8, 'sq': "
    "512, "
    "'sk': 512, 'd': 64, 'causal': true, 'kernel': 'fwd_cpu_avx512', 'samples_ns': {'attest': "
    "[5000, 5100, 4900, 5050, 4950], 'torch': [6000, 6100, 5900, 6050, 5950]}}]}";

static const char ablation_text[] =
    "{'schema': 'attest-ablation-1', 'compiler': 'NVRTC', 'machine': {'processor': 'A CPU', "
    "'gpu': "
    "{'name': 'NVIDIA H200'}}, 'kernel': 'fwd_a', 'problem': 'b1h8s512d64,fp16', 'variants': ["
    "{'name': 'all', 'kind': 'all_on', 'outcome': 'pass', 'samples_ns': [1000, 1001, 999]}, "
    "{'name': 'no swizzle', 'kind': 'one_off', 'outcome': 'pass', 'samples_ns': [1300, 1301, "
    "1299]}, "
    "{'name': 'no async', 'kind': 'one_off', 'outcome': 'fail', 'samples_ns': []}, "
    "{'name': 'none', 'kind': 'all_off', 'outcome': 'pass', 'samples_ns': [2000, 2001, 1999]}, "
    "{'name': '+ swizzle', 'kind': 'cumulative', 'outcome': 'pass', 'samples_ns': [1500, 1501, "
    "1499]}]}";

static const char peaks_text[] =
    "{'schema': 'attest-gpu-peaks-1', 'device': {'name': 'NVIDIA H200'}, 'mma_flops': {'bf16': "
    "6.4e14}, "
    "'read_bytes': 4.5e12, 'copy_bytes': 3.9e12, 'exp_per_clock_sm': 15.9, 'l2_clocks': 284}";

static const char statement_text[] =
    "{'_type': 'https://in-toto.io/Statement/v1', 'subject': [{'name': 'fwd_a.cubin', "
    "'digest': "
    "{'sha256': 'abcd'}}], 'predicateType': 'urn:attest:v1', 'predicate': {'kernel': 'fwd_a', "
    "'made': '2026-11-14', "
    "'attest': '0.2.0', 'machine': {'gpu': {'name': 'NVIDIA H200'}}, 'verified': [1, 2], "
    "'timed': [1]}}";

static const char check_text[] =
    "{'schema': 'attest-bench-2', 'machine': {'processor': 'A CPU', 'device': 'cuda', 'gpu': "
    "{'name': "
    "'NVIDIA H200'}}, 'minimum_effect': 0.012, 'device_seconds': 3, 'results': [{'problem': "
    "{'spec': "
    "'b1h8s512d64,fp16'}, 'timed': false}], 'self_check': {'kind': 'inject', 'slowdown': 0.03, "
    "'expected': 'SLOWER', 'verdicts': 40, 'right': 39}}";

static const char audit_text[] =
    "{'schema': 'attest-audit-1', 'machine': {'processor': 'A CPU'}, 'results': ["
    "{'name': 'no-op', 'deed': 'does nothing', 'honest': false, 'outcome': 'caught', 'stage': "
    "'verify', "
    "'check': 'row 0 is NaN'}, {'name': 'cached', 'deed': 'remembers', 'honest': false, "
    "'outcome': "
    "'MISSED', 'stage': 'bench'}, {'name': 'honest', 'honest': true, 'outcome': 'passed'}]}";

static const char profile_text[] = "{'schema': 'attest-profile-1', 'machine': null, 'problem': "
                                   "{'spec': 'b1h8s512d64,fp16'}, 'launches': "
                                   "[{'launch': 0, 'kernel': 'fwd_a', 'bottleneck': 'tensor "
                                   "pipe', 'metrics': {'tensor_percent': 61.2, "
                                   "'dram_percent': 12.0, 'l2_percent': null}}]}";

static const char compare_text[] =
    "{'schema': 'attest-compare-1', 'machine': null, 'comparison': {'rows': [{'problem': "
    "'b1h8s512d64,fp16', 'subject_a': 'attest', 'subject_b': 'attest', 'kernel_b': 'fwd_a', "
    "'median_a_ns': 1000, 'median_b_ns': 1250, 'verdict': {'verdict': 'SLOWER', 'effect': "
    "0.25, 'low': "
    "0.24, 'high': 0.26}}, {'problem': 'b1h8s128d64,fp16', 'subject_b': 'attest', 'lost': "
    "'refused'}]}}";

/* Medians that another program measured: three lengths, ahead of one rival and behind the
 * other. */
static const char medians_text[] =
    "{'schema': 'attest-rival-medians-1', 'machine': 'NVIDIA H200, driver 580', 'attest': "
    "'0.1.0', 'method': 'by turns', 'rivals': {'fa3': 'FlashAttention-3 at 0251'}, 'cells': ["
    "{'group': 'forward', 'batch': 4, 'heads_q': 16, 'heads_kv': 16, 'seq_q': 512, 'seq_k': "
    "512, "
    "'d_qk': 128, 'd_v': 128, 'dtype': 'bfloat16', 'causal': 1, 'us': {'attest': 100, 'fa3': "
    "120, "
    "'cudnn': 90}, 'kernel': 'fwd_m'}, "
    "{'group': 'forward', 'batch': 2, 'heads_q': 16, 'heads_kv': 16, 'seq_q': 1024, 'seq_k': "
    "1024, 'd_qk': 128, 'd_v': 128, 'dtype': 'bfloat16', 'causal': 1, 'us': {'attest': 150, "
    "'fa3': 180}, 'kernel': 'fwd_m'}, "
    "{'group': 'forward', 'batch': 1, 'heads_q': 16, 'heads_kv': 16, 'seq_q': 2048, 'seq_k': "
    "2048, 'd_qk': 128, 'd_v': 128, 'dtype': 'bfloat16', 'causal': 1, 'us': {'attest': 250, "
    "'fa3': 300}, 'kernel': 'fwd_m'}]}";

static const struct {
    const char *name, *text;
} samples[] = {
    {"bench.json", bench_text},         {"ladder.json", ladder_text},
    {"gpu_torch.json", gpu_torch_text}, {"cpu_torch.json", cpu_torch_text},
    {"ablation.json", ablation_text},   {"peaks.json", peaks_text},
    {"statement.json", statement_text}, {"check.json", check_text},
    {"compare.json", compare_text},     {"audit.json", audit_text},
    {"profile.json", profile_text},     {"medians.json", medians_text},
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

/* ------------------------------------------------------------------------- helpers */

static char folder[] = "/tmp/attest_report_XXXXXX";
static lab_message why;

static json_t *parse(const char *text) {
    char *copy = strdup(text);
    for (char *at = copy; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    json_error_t error;
    json_t *document = json_loads(copy, 0, &error);
    if (!document)
        fail_msg("the test itself: %s in %.60s", error.text, copy);
    free(copy);
    return document;
}

/* The path of `name` in the folder, in one of a few static buffers. */
static const char *path_of(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void put_text(const char *name, const char *text, size_t length) {
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    fwrite(text, 1, length, file);
    fclose(file);
}

static void put_document(const char *name, const json_t *document) {
    char *text = json_dumps(document, 0);
    put_text(name, text, strlen(text));
    free(text);
}

static void put_sample(const char *name, const char *text) {
    json_t *document = parse(text);
    put_document(name, document);
    json_decref(document);
}

static void clear_folder(void) {
    for (int i = 0; i < SAMPLES; i++)
        unlink(path_of(samples[i].name));
    unlink(path_of("x.json"));
    unlink(path_of("y.json"));
}

static int setup_folder(void **state) {
    (void)state;
    setenv("ATTEST_DEVICES", "devices", 1);
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    clear_folder();
    return rmdir(folder);
}

typedef enum view { HTML, MARKDOWN, TERMINAL, PICTURES, VIEWS } view;

/* Every plot of the report as a picture, one after the other; a word if there is none. */
static void put_pictures(FILE *out, const lab_report *report) {
    char *names = NULL;
    size_t length = 0;
    FILE *list = open_memstream(&names, &length);
    assert_true(lab_report_svg(list, report, "list", LAB_THEME_LIGHT, &why));
    fclose(list);
    fputs("pictures:\n", out);
    char *rest = names, *name;
    while ((name = strsep(&rest, "\n")) != NULL)
        if (*name && !lab_report_svg(out, report, name, LAB_THEME_DARK, &why))
            fail_msg("%s: %s", name, why.text);
    free(names);
}

/* Not inlined: gcc 12 takes the stream's buffer for a pointer to a local variable then. */
__attribute__((noinline)) static char *render(const lab_report *report, view v) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (v == HTML)
        lab_report_html(out, report);
    else if (v == MARKDOWN)
        lab_report_markdown(out, report);
    else if (v == PICTURES)
        put_pictures(out, report);
    else
        lab_report_terminal(out, report, 80, false);
    fclose(out);
    return text;
}

static size_t occurrences(const char *text, const char *word) {
    size_t count = 0;
    while ((text = strstr(text, word)) != NULL) {
        text += strlen(word);
        count++;
    }
    return count;
}

/* Where `word` is in `text` after `from`; it must be there. */
static size_t place_of(const char *text, size_t from, const char *word) {
    const char *at = strstr(text + from, word);
    if (!at)
        fail_msg("there is no '%s' in its place", word);
    return (size_t)(at - text);
}

static void make_report(lab_report *report) {
    const char *const paths[] = {folder};
    if (!lab_report_make(report, paths, 1, &why))
        fail_msg("%s", why.text);
}

static void put_all(void) {
    clear_folder();
    for (int i = 0; i < SAMPLES; i++)
        put_sample(samples[i].name, samples[i].text);
}

/* The message with which `path` alone is refused. */
static const char *refusal(const char *name) {
    lab_report report;
    const char *const paths[] = {path_of(name)};
    why.text[0] = '\0';
    if (lab_report_make(&report, paths, 1, &why)) {
        lab_report_free(&report);
        fail_msg("%s was taken", name);
    }
    return why.text;
}

/* --------------------------------------------------------------------- what is said */

static void test_report__all_kinds_of_files__counts_wins_and_losses(void **state) {
    (void)state;
    lab_report report;
    put_all();
    make_report(&report);
    assert_int_equal(report.file_count, SAMPLES);
    assert_int_equal(report.pair_count, 6);
    size_t counts[LAB_VERDICTS] = {0};
    for (size_t i = 0; i < report.pair_count; i++)
        counts[report.pairs[i].verdict.kind]++;
    assert_int_equal(counts[LAB_FASTER], 3);
    assert_int_equal(counts[LAB_SLOWER], 3);

    const lab_report_pair **losses;
    assert_int_equal(lab_report_losses(&report, false, true, &losses), 1); /* the baseline */
    free((void *)losses);
    assert_int_equal(lab_report_losses(&report, false, false, &losses), 2);
    assert_true(losses[0]->speed < losses[1]->speed); /* 0.7 of cudnn, then 0.8 */
    assert_string_equal(report.timings[losses[0]->theirs].subject, "PyTorch 2.11.0 cudnn");
    assert_true(losses[0]->low <= losses[0]->speed && losses[0]->speed <= losses[0]->high);
    free((void *)losses);

    /* The ladder's fwd_a is the first run of what bench.json times alone: history. */
    assert_int_equal(report.history_count, 1);
    assert_int_equal(report.history[0].verdict.kind, LAB_FASTER);
    assert_true(report.history[0].speed > 1.09 && report.history[0].speed < 1.11);
    lab_report_free(&report);
}

static void test_report__files_in_any_order__are_put_oldest_first(void **state) {
    (void)state;
    lab_report report;
    put_all();
    make_report(&report);
    for (size_t i = 1; i < report.file_count; i++)
        assert_true(strcmp(report.files[i - 1].date, report.files[i].date) <= 0);
    assert_string_equal(report.files[report.file_count - 1].date, "2026-11-15");
    assert_non_null(strstr(report.files[0].name, "attest_report_"));
    assert_null(strstr(report.files[0].name, "/tmp"));
    lab_report_free(&report);
}

static void test_report__versions__are_ordered_as_numbers(void **state) {
    (void)state;
    lab_report report;
    clear_folder();
    json_t *document = parse(ladder_text);
    json_object_set_new(document, "attest", json_string("0.10.0"));
    put_document("x.json", document);
    json_object_set_new(document, "attest", json_string("0.9.0"));
    put_document("y.json", document);
    json_decref(document);
    make_report(&report);
    assert_string_equal(report.files[0].version, "0.9.0");
    assert_int_equal(report.history_count, 2); /* each rung against its earlier run */
    assert_int_equal(report.history[1].verdict.kind, LAB_SAME);
    lab_report_free(&report);
}

static void test_report__newer_comparison__supersedes_the_older(void **state) {
    (void)state;
    lab_report report;
    clear_folder();
    put_sample("x.json", cpu_torch_text);
    put_sample("y.json", cpu_torch_text);
    make_report(&report);
    assert_int_equal(report.pair_count, 1);
    assert_int_equal(report.superseded, 1);
    assert_int_equal(report.timings[report.pairs[0].ours].file, 1);
    lab_report_free(&report);
}

static void test_report__recorded_baseline__is_a_loss_like_any_other(void **state) {
    (void)state;
    lab_report report;
    clear_folder();
    put_sample("compare.json", compare_text);
    make_report(&report);
    assert_int_equal(report.pair_count, 1);
    assert_int_equal(report.pairs[0].verdict.kind, LAB_SLOWER);
    assert_true(report.pairs[0].speed == 0.8 && report.pairs[0].low < 0.8 &&
                report.pairs[0].high > 0.8);
    char *page = render(&report, HTML);
    assert_non_null(strstr(page, "<p class=\"soft\">worst 0.80× against the baseline"));
    assert_non_null(strstr(page, "<td>the baseline</td><td><code>fwd_a</code></td>"));
    assert_non_null(strstr(page, "refused, where the baseline has a time"));
    free(page);
    lab_report_free(&report);
}

/* attest on the same problem with a kernel of another family in a later file: the earlier
 * comparison is of an older kernel. */
static void test_report__kernel_of_another_family_since__is_older(void **state) {
    (void)state;
    lab_report report;
    clear_folder();
    json_t *document = parse(bench_text);
    json_t *first = json_array_get(json_object_get(document, "results"), 0);
    json_object_set_new(first, "kernel", json_string("fwd_sm80_a"));
    json_object_set_new(document, "made", json_string("2026-11-01"));
    put_document("x.json", document);
    json_object_set_new(first, "kernel", json_string("fwd_sm90_a"));
    json_object_set_new(document, "made", json_string("2026-11-02"));
    json_array_remove(json_object_get(document, "results"), 1); /* it meets one rival less */
    put_document("y.json", document);
    json_decref(document);
    make_report(&report);
    assert_int_equal(report.pair_count, 2); /* slow in x, quick in y, which repeats x's */
    lab_report_tally *tallies;
    assert_int_equal(lab_report_tallies(&report, &tallies), 2);
    assert_true(!tallies[0].older && strcmp(tallies[0].rival, "quick 2.0") == 0);
    assert_true(tallies[1].older && strcmp(tallies[1].rival, "slow 1.0") == 0);
    free(tallies);
    lab_report_card *cards;
    assert_int_equal(lab_report_cards(&report, &cards), 1);
    assert_int_equal(cards[0].counts[LAB_SLOWER], 1);
    free(cards);
    char *page = render(&report, HTML);
    assert_non_null(strstr(page, "<section id=\"older\">"));
    assert_non_null(strstr(page, "<a href=\"#older\">Older kernels</a>"));
    free(page);
    lab_report_free(&report);
}

static void test_report__medians_alone__have_speeds_and_no_verdicts(void **state) {
    (void)state;
    lab_report report;
    clear_folder();
    put_sample("medians.json", medians_text);
    make_report(&report);
    assert_int_equal(report.pair_count, 0);
    assert_int_equal(report.median_count, 4);
    assert_true(report.medians[0].unjudged);
    assert_true(report.medians[0].speed == 1.2);
    lab_report_card *cards;
    assert_int_equal(lab_report_cards(&report, &cards), 1);
    assert_int_equal(cards[0].problems, 3);
    assert_int_equal(cards[0].unjudged, 3);
    assert_int_equal(cards[0].ahead, 2);
    assert_true(cards[0].worst->speed == 0.9);
    free(cards);
    char *page = render(&report, HTML);
    assert_null(strstr(page, "class=\"verdict faster\""));
    assert_null(strstr(page, "<section id=\"losses\">")); /* no section is empty */
    assert_null(strstr(page, "<section id=\"history\">"));
    assert_null(strstr(page, "href=\"#ladder\""));
    free(page);
    lab_report_free(&report);
}

/* A rival has the same slot whatever file it is in and whatever is beside it. */
static void test_slots__of_rivals__are_theirs_throughout(void **state) {
    (void)state;
    lab_report report;
    put_all();
    make_report(&report);
    assert_int_equal(lab_report_slot(&report, "attest"), 0);
    const size_t cudnn = lab_report_slot(&report, "cuDNN"),
                 slow = lab_report_slot(&report, "slow 1.0"),
                 quick = lab_report_slot(&report, "quick 2.0");
    assert_true(cudnn > 0 && slow > cudnn && quick > cudnn && slow != quick);
    for (size_t i = 0; i < report.timing_count; i++)
        if (strcmp(report.timings[i].rival, "cudnn") == 0)
            assert_int_equal(lab_report_slot(&report, lab_report_name(&report.timings[i])),
                             cudnn);
    lab_report_free(&report);
}

/* A bench of one device with these results, each with samples around its time, or with a message
 * instead of a time. */
typedef struct result {
    const char *group, *spec, *subject, *rival, *kernel;
    double us;
    const char *message;
} result;

static void put_results(const char *name, const char *made, const result *list, size_t count) {
    json_t *document = parse("{'schema': 'attest-bench-2', 'attest': '0.2.0', 'machine': "
                             "{'device': 'cuda', 'gpu': {'name': 'NVIDIA H200'}}}");
    json_t *results = json_array();
    json_object_set_new(document, "made", json_string(made));
    for (size_t i = 0; i < count; i++) {
        const result *r = &list[i];
        json_t *one = json_pack(
            "{s:{s:s}, s:s, s:s, s:s, s:s, s:s, s:b, s:{s:s, s:s}}", "problem", "spec", r->spec,
            "group", r->group, "subject", r->subject, "rival", r->rival, "kernel", r->kernel,
            "timer", "graph", "timed", r->us > 0.0, "verify", "outcome",
            r->us > 0.0 ? "pass" : "refused", "message", r->message ? r->message : "");
        assert_non_null(one);
        if (r->us > 0.0) {
            json_t *times = json_array();
            for (int k = 0; k < 8; k++)
                json_array_append_new(times, json_real(r->us * (1e3 + k % 3)));
            json_object_set_new(one, "samples_ns", times);
        }
        json_array_append_new(results, one);
    }
    json_object_set_new(document, "results", results);
    put_document(name, document);
    json_decref(document);
}

#define PUT_RESULTS(name, made, list)                                                          \
    put_results(name, made, list, sizeof(list) / sizeof(list)[0])

static void test_label__of_long_lists__is_short(void **state) {
    (void)state;
    static const struct {
        const char *problem, *label;
    } cases[] = {
        {"b1h1s8d8", "b1h1s8d8, sustained"},
        {"b3h1s8d8,lens=5:5:5", "b3h1s8d8,lens=5:5:5, sustained"},
        {"b6h1s8d8,lensk=9:9:9:77:9:9,causal", "b6h1s8d8,lensk=9×3:77:9:9,causal, sustained"},
        {"b7h1s8d8,lens=1:2:3:4:5:6:7,causal,window=4:0",
         "b7h1s8d8,lens=1:2:3:4:… 7 values,causal,window=4:0, sustained"},
        {"b5h1s8d8,lens=1:2:3:4:5", "b5h1s8d8,lens=1:2:3:4:5, sustained"},
        {"b5h1s8d8,lens=10:1:1:1:100", "b5h1s8d8,lens=10:1×3:100, sustained"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const lab_report_timing t = {.problem = cases[i].problem, .variant = "sustained"};
        char label[128];
        assert_string_equal(lab_report_label(label, sizeof label, &t), cases[i].label);
        for (size_t n = 1; n < strlen(cases[i].label); n++) { /* in less room: cut off */
            lab_report_label(label, n, &t);
            assert_true(strlen(label) < n &&
                        strncmp(label, cases[i].label, strlen(label)) == 0);
        }
    }
}

/* Two problems with one short label keep their own rows, and the whole list is a title. */
static void test_page__problems_that_look_alike__are_two_rows(void **state) {
    (void)state;
    static const result list[] = {
        {"lengths", "b5h1s9d64,bf16,lens=1:2:3:4:9", "attest", "attest", "k", 10.0, NULL},
        {"lengths", "b5h1s9d64,bf16,lens=1:2:3:4:9", "x", "x", "", 9.0, NULL},
        {"lengths", "b6h1s9d64,bf16,lens=1:2:3:4:5:9", "attest", "attest", "k", 10.0, NULL},
        {"lengths", "b6h1s9d64,bf16,lens=1:2:3:4:5:9", "x", "x", "", 9.0, NULL},
        {"lengths", "b6h1s9d64,bf16,lens=1:2:3:4:6:9", "attest", "attest", "k", 10.0, NULL},
        {"lengths", "b6h1s9d64,bf16,lens=1:2:3:4:6:9", "x", "x", "", 9.0, NULL}};
    lab_report report;
    clear_folder();
    PUT_RESULTS("x.json", "2026-11-15", list);
    make_report(&report);
    char *page = render(&report, HTML);
    assert_int_equal(
        occurrences(page, "<div class=\"row\"><code>b6h1s9d64,bf16,lens=1:2:3:4:… 6 "
                          "values</code>"),
        2);
    assert_non_null(strstr(page,
                           "<code title=\"b6h1s9d64,bf16,lens=1:2:3:4:6:9\">b6h1s9d64,bf16,"
                           "lens=1:2:3:4:… 6 values</code>"));
    free(page);
    lab_report_free(&report);
}

/* The number of experts is no exponent of the number of tokens. */
static void test_rates__of_experts__are_over_the_tokens(void **state) {
    (void)state;
    static const result list[] = {
        {"experts", "moe:t1e8k2h64i64,bf16", "attest", "attest", "k", 10.0, NULL},
        {"experts", "moe:t64e8k2h64i64,bf16", "attest", "attest", "k", 20.0, NULL},
        {"experts", "moe:t4096e8k2h64i64,bf16", "attest", "attest", "k", 30.0, NULL}};
    lab_report report;
    clear_folder();
    PUT_RESULTS("x.json", "2026-11-15", list);
    make_report(&report);
    char *page = render(&report, HTML);
    assert_non_null(strstr(page, "<h4>mixtures of experts: e8k2h64i64, bf16</h4>"));
    assert_non_null(strstr(page, ">4k</text>"));
    assert_non_null(strstr(page, ">tokens</text>"));
    assert_null(strstr(page, "00M</text>"));
    free(page);
    char *names = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&names, &length);
    assert_true(lab_report_svg(out, &report, "list", LAB_THEME_LIGHT, &why));
    fclose(out);
    assert_non_null(strstr(names, "rates-experts-e8k2h64i64-bf16\n"));
    free(names);
    lab_report_free(&report);
}

/* Every subject of the benches has its own slot, attest's other forms too, and a short name. */
static void test_slots__of_known_subjects__are_all_different(void **state) {
    (void)state;
    static const struct {
        const char *rival, *subject, *name;
    } known[] = {{"attest", "attest", "attest"},
                 {"cudnn", "PyTorch 2.11.0 cudnn", "cuDNN"},
                 {"flash", "PyTorch 2.11.0 flash", "FlashAttention-2"},
                 {"flash-deterministic", "PyTorch 2.11.0 flash, deterministic",
                  "FlashAttention-2, deterministic"},
                 {"fa3", "FlashAttention-3", "FlashAttention-3"},
                 {"fa3-deterministic", "FlashAttention-3, deterministic",
                  "FlashAttention-3, deterministic"},
                 {"default", "PyTorch 2.11.0", "PyTorch"},
                 {"math", "PyTorch 2.11.0 math", "PyTorch, math"},
                 {"efficient", "PyTorch 2.11.0 efficient", "PyTorch, efficient"},
                 {"flex", "PyTorch 2.11.0 flex", "PyTorch, flex"},
                 {"grouped_mm", "PyTorch 2.11.0 grouped_mm", "PyTorch, grouped_mm"},
                 {"loop", "PyTorch 2.11.0 loop over experts", "PyTorch, a loop over experts"},
                 {"jax", "JAX 0.11.2", "JAX"},
                 {"cublas 13.1.0, batched", "cublas 13.1.0, batched", "cuBLAS"},
                 {"attest-library 0.1.0", "attest-library 0.1.0", "attest-library 0.1.0"},
                 {"contiguous", "attest, contiguous keys", "attest, contiguous keys"},
                 {"equal", "attest, equal lengths", "attest, equal lengths"},
                 {"plain", "attest, plain scores", "attest, plain scores"},
                 {"whole", "attest, one call", "attest, one call"},
                 {"a", "another 1", "another 1"},
                 {"b", "another 2", "another 2"},
                 {"c", "another 3", "another 3"},
                 {"d", "another 4", "another 4"},
                 {"e", "another 5", "another 5"}};
    enum { SUBJECTS = sizeof known / sizeof known[0] };
    result list[SUBJECTS];
    lab_report report;
    size_t slots[SUBJECTS];
    for (size_t i = 0; i < SUBJECTS; i++)
        list[i] = (result){
            "forward", "b1h1s8d8,fp16", known[i].subject, known[i].rival, "k", 10.0 + (double)i,
            NULL};
    clear_folder();
    put_results("x.json", "2026-11-15", list, SUBJECTS);
    make_report(&report);
    for (size_t i = 0; i < SUBJECTS; i++) {
        assert_string_equal(lab_report_name(&report.timings[i]), known[i].name);
        slots[i] = lab_report_slot(&report, known[i].name);
        for (size_t k = 0; k < i; k++)
            if (slots[k] == slots[i])
                fail_msg("%s and %s share slot %zu", known[k].name, known[i].name, slots[i]);
    }
    char *page = render(&report, HTML); /* what the short names leave out */
    assert_non_null(strstr(page, "<dt>JAX</dt><dd>JAX 0.11.2</dd>"));
    free(page);
    lab_report_free(&report);
}

static const result against_itself[] = {
    {"forward", "b1h1s64d64,fp16", "attest", "attest", "k", 10.0, NULL},
    {"forward", "b1h1s64d64,fp16", "PyTorch 2.11.0 cudnn", "cudnn", "", 9.0, NULL},
    {"pages", "b1h1s64d64,fp16,paged=16", "attest", "attest", "k", 10.0, NULL},
    {"pages", "b1h1s64d64,fp16,paged=16", "attest, contiguous keys", "contiguous", "", 5.0,
     NULL}};

static void test_losses__against_itself__are_a_list_of_their_own(void **state) {
    (void)state;
    lab_report report;
    const lab_report_pair **losses;
    clear_folder();
    PUT_RESULTS("x.json", "2026-11-15", against_itself);
    make_report(&report);
    for (int itself = 0; itself <= 1; itself++) {
        assert_int_equal(lab_report_losses(&report, false, itself == 1, &losses), 1);
        assert_string_equal(report.timings[losses[0]->theirs].rival,
                            itself ? "contiguous" : "cudnn");
        free((void *)losses);
    }
    char *page = render(&report, HTML), *text = render(&report, MARKDOWN);
    const size_t lost = place_of(page, 0, "<section id=\"losses\">"),
                 apart = place_of(page, lost, "<h3>attest against itself</h3>");
    assert_true(place_of(page, lost, "<td>cuDNN</td>") < apart);
    assert_true(place_of(page, lost, "<td>attest, contiguous keys</td>") > apart);
    assert_non_null(strstr(page, "<dt>against</dt><dd>cuDNN</dd>"));
    assert_non_null(strstr(page, "<h3>pages of keys against contiguous keys</h3>"));
    assert_non_null(strstr(text, "### Losses against itself\n"));
    free(page);
    free(text);
    lab_report_free(&report);
}

static void test_page__groups__are_in_the_order_of_the_cards(void **state) {
    (void)state;
    static const result list[] = {
        {"", "b1h1s8d8,fp16", "attest", "attest", "k", 10.0, NULL},
        {"", "b1h1s8d8,fp16", "cublas 13", "cublas 13", "", 20.0, NULL},
        {"windows", "b1h1s8d8,fp16,causal", "attest", "attest", "k", 10.0, NULL},
        {"windows", "b1h1s8d8,fp16,causal", "attest, plain scores", "plain", "", 20.0, NULL},
        {"few_heads", "b1h1s8d8,fp16", "attest", "attest", "k", 10.0, NULL},
        {"few_heads", "b1h1s8d8,fp16", "x", "x", "", 20.0, NULL},
        {"few_heads", "b1h1s9d8,fp16", "attest", "attest", "k", 10.0, NULL},
        {"few_heads", "b1h1s9d8,fp16", "x", "x", "", 20.0, NULL},
        {"few_heads", "b1h1s10d8,fp16", "attest", "attest", "k", 10.0, NULL},
        {"few_heads", "b1h1s10d8,fp16", "x", "x", "", 20.0, NULL},
        {"few_heads", "b1h1s11d8,fp16", "attest", "attest", "k", 10.0, NULL},
        {"few_heads", "b1h1s11d8,fp16", "x", "x", "", 20.0, NULL},
        {"backward", "backward:b1h1s8d8,fp16", "attest", "attest", "k", 10.0, NULL},
        {"backward", "backward:b1h1s8d8,fp16", "x", "x", "", 20.0, NULL}};
    static const char *const groups[] = {"backward", "few_heads", "", "windows"};
    static const char *const cards[] = {"<h3>few heads</h3>",
                                        "<summary>2 more, of fewer than 4 problems each</summary>",
                                        "<h3>gradients</h3>",
                                        "<h3>attention</h3>",
                                        "attest against itself",
                                        "<h3>sliding windows against plain scores</h3>",
                                        "<section id=\"speeds\">",
                                        "NVIDIA H200: gradients, ",
                                        "NVIDIA H200: few heads, ",
                                        "NVIDIA H200: attention, ",
                                        "NVIDIA H200: sliding windows, "};
    lab_report report;
    lab_report_group *found;
    clear_folder();
    PUT_RESULTS("x.json", "2026-11-15", list);
    make_report(&report);
    assert_int_equal(lab_report_groups(&report, &found), 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(found[i].group, groups[i]);
    free(found);
    char *page = render(&report, HTML);
    size_t at = 0;
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++)
        at = place_of(page, at, cards[i]);
    free(page);
    lab_report_free(&report);
}

/* Kernels of several families are a ladder; of one family, tiles; one kernel twice is neither. */
static void test_ladder__of_tiles_or_one_kernel__is_none(void **state) {
    (void)state;
    static const result tiles[] = {
        {"", "b1h1s8d8,fp16", "attest", "attest", "mma_sm80_m64", 10.0, NULL},
        {"", "b1h1s8d8,fp16", "attest", "attest", "mma_sm80_m128", 9.0, NULL},
        {"", "b1h1s9d8,fp16", "attest", "attest", "merge_sm80", 10.0, NULL},
        {"", "b1h1s9d8,fp16", "attest", "attest", "merge_sm80", 9.0, NULL}};
    static const result rungs[] = {
        {"", "b1h1s8d8,fp16", "attest", "attest", "naive_sm80", 10.0, NULL},
        {"", "b1h1s8d8,fp16", "attest", "attest", "mma_sm80_m64", 9.0, NULL}};
    lab_report report;
    clear_folder();
    PUT_RESULTS("x.json", "2026-11-14", tiles);
    make_report(&report);
    char *page = render(&report, HTML);
    assert_null(strstr(page, "<section id=\"ladder\">"));
    assert_non_null(strstr(page, "<section id=\"tiles\">"));
    assert_int_equal(occurrences(page, "id=\"plot-tiles\""), 1);
    free(page);
    lab_report_free(&report);
    PUT_RESULTS("y.json", "2026-11-15", rungs);
    make_report(&report);
    page = render(&report, HTML);
    assert_non_null(strstr(page, "<section id=\"ladder\">"));
    const size_t plot = place_of(page, 0, "id=\"plot-ladder\""),
                 caption = place_of(page, plot, "b1h1s8d8,fp16: ");
    assert_true(place_of(page, caption, "y.json</figcaption>") < place_of(page, plot, "<svg"));
    /* A rung of a ladder is no later run of a tile that was tried. */
    assert_int_equal(report.history_count, 0);
    free(page);
    lab_report_free(&report);
}

static void test_failures__whose_message_has_the_outcome__say_it_once(void **state) {
    (void)state;
    static const result list[] = {{"forward", "b1h1s8d8,fp16", "PyTorch 2.11.0 flash", "flash",
                                   "", 0.0, "refused: too odd"},
                                  {"forward", "b1h1s8d8,fp16", "PyTorch 2.11.0 cudnn", "cudnn",
                                   "", 0.0, "refusedly: no"}};
    lab_report report;
    clear_folder();
    PUT_RESULTS("x.json", "2026-11-15", list);
    make_report(&report);
    assert_string_equal(report.timings[0].failure, "refused: too odd");
    assert_string_equal(report.timings[1].failure, "refused: refusedly: no");
    char *page = render(&report, HTML), *text = render(&report, MARKDOWN);
    assert_non_null(strstr(page, "</code>, FlashAttention-2: refused: too odd"));
    assert_non_null(strstr(text, "| `FlashAttention-2` | `refused: too odd` |"));
    free(page);
    free(text);
    lab_report_free(&report);
}

/* The second plot of a group is named by its file, not by a number. */
static void test_pictures__of_one_group_in_two_files__are_named_by_file(void **state) {
    (void)state;
    static const result list[] = {
        {"forward", "b1h16s512d128,bf16", "attest", "attest", "fwd_m", 10.0, NULL},
        {"forward", "b1h16s1024d128,bf16", "attest", "attest", "fwd_m", 20.0, NULL},
        {"forward", "b1h16s4096d128,bf16", "attest", "attest", "fwd_m", 30.0, NULL}};
    lab_report report;
    char *names = NULL;
    size_t length = 0;
    clear_folder();
    put_sample("medians.json", medians_text);
    PUT_RESULTS("x.json", "2026-11-15", list);
    make_report(&report);
    FILE *out = open_memstream(&names, &length);
    assert_true(lab_report_svg(out, &report, "list", LAB_THEME_LIGHT, &why));
    fclose(out);
    assert_non_null(strstr(names, "rates-forward\n"));
    assert_non_null(strstr(names, "rates-forward-x\n"));
    assert_non_null(strstr(names, "times-x\n"));
    assert_null(strstr(names, "-2\n"));
    free(names);
    lab_report_free(&report);
}

static bool draws(const lab_report *report, const char *name, char **text) {
    size_t length = 0;
    *text = NULL;
    FILE *out = open_memstream(text, &length);
    why.text[0] = '\0';
    const bool ok = lab_report_svg(out, report, name, LAB_THEME_LIGHT, &why);
    fclose(out);
    return ok;
}

static void test_picture__by_name__is_a_file_of_its_own(void **state) {
    (void)state;
    lab_report report;
    char *text = NULL;
    put_all();
    make_report(&report);
    assert_true(draws(&report, "rates-forward", &text));
    assert_ptr_equal(text,
                     strstr(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"984\""));
    assert_int_equal(occurrences(text, "<svg"), occurrences(text, "</svg>"));
    assert_null(strstr(text, "--")); /* no variable is left, in a viewer that knows none */
    assert_non_null(strstr(text, "class=\"line s3\"")); /* FlashAttention-3's colour */
    free(text);
    assert_true(draws(
        &report, "rates-forward-h16d128-bf16-causal,rates-forward-h16d128-bf16-causal", &text));
    assert_int_equal(occurrences(text, "class=\"panel\""), 2); /* as often as it is asked for */
    free(text);
    lab_report_free(&report);
}

static void test_picture__of_no_such_name__names_the_nearest(void **state) {
    (void)state;
    static const struct {
        const char *name, *said;
    } cases[] = {
        {"rates-forwrad", "there is no plot 'rates-forwrad'; did you mean 'rates-forward'?"},
        {"zebra", "there is no plot 'zebra'; --svg list names those that exist"},
        {"roofline,rates-forward-h16d128-bf16-causal", "'roofline' is a picture by itself"},
        {"a,a,a,a,a,a,a,a,a", "at most 8 plots fit side by side"},
        {"", "there is no plot ''"},
    };
    lab_report report;
    char *text = NULL;
    put_all();
    make_report(&report);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_false(draws(&report, cases[i].name, &text));
        if (!strstr(why.text, cases[i].said))
            fail_msg("%s: %s", cases[i].name, why.text);
        assert_string_equal(text, "");
        free(text);
    }
    lab_report_free(&report);
    clear_folder();
    put_sample("audit.json", audit_text);
    make_report(&report);
    assert_false(draws(&report, "roofline", &text));
    assert_non_null(strstr(why.text, "these files contain nothing to plot"));
    free(text);
    lab_report_free(&report);
}

static void test_page__of_all_kinds__has_every_section_and_number(void **state) {
    (void)state;
    static const char *const wanted[] = {
        "<section id=\"verdicts\">",
        "<section id=\"losses\">",
        "<section id=\"rates\">",
        "<section id=\"speeds\">",
        "<section id=\"roofline\">",
        "<section id=\"ladder\">",
        "<section id=\"ablation\">",
        "<section id=\"history\">",
        "<section id=\"environment\">",
        "<dt>on</dt><dd>",
        "<h3>forward: gpu_torch</h3>", /* two cards of one group are told apart */
        "<h3>forward: medians</h3>",
        "2 of 3 faster, by medians alone", /* what stands on a card */
        "<h4>forward: 16 heads of 128, bf16, causal</h4>",
        "tensor cores: 989 · matrix product, measured: 759",
        "sequence length",
        "FlashAttention-3</li>",
        "fwd_m, 1.200 times FlashAttention-3", /* a mark names its kernel */
        "row 7 is wrong",                      /* a failure is shown */
        "0.70×",                               /* and the worst loss */
        "tensor cores: 989.4 TFLOP/s",         /* the device was found by its name */
        "float32 FMA, measured",
        "class=\"whole\"", /* the waterfall */
        "not timed",       /* the variant whose answer was wrong */
        "1900 to 1980 MHz",
        "700.00 W",
        "fwd_a.cubin",
        "slowed down by 3 % on purpose",
        "<td class=\"num\">39 of 40</td>",
        "<b>1 of 2 caught</b>; 1 of 1 honest ones passed",
        "<td class=\"verdict slower\">MISSED</td>",
        "<td class=\"num\">61 %</td>",
        "unavailable", /* what the profiler did not say is not 0 */
        "<td class=\"num\">2</td><td class=\"num\">1</td>",
    };
    lab_report report;
    put_all();
    make_report(&report);
    report.price_per_hour = 3.6;
    char *page = render(&report, HTML);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!strstr(page, wanted[i]))
            fail_msg("the page has no %s", wanted[i]);
    assert_non_null(strstr(page, "default-src &#39;none&#39;; style-src &#39;sha256-"));
    assert_non_null(strstr(page, "; script-src &#39;sha256-"));
    assert_int_equal(occurrences(page, "<script"), 1);
    assert_null(strstr(page, " style=\""));
    assert_null(strstr(page, "http://www.w3.org/2000"));
    assert_null(strstr(page, "nan"));
    /* 12.5 s at 3.6 per hour; the other files know only their samples. */
    assert_non_null(strstr(page, "<td class=\"num\">0.0125</td>"));
    assert_non_null(strstr(page, ">above 0.0"));
    free(page);
    char *again = render(&report, HTML), *once_more = render(&report, HTML);
    assert_string_equal(again, once_more);
    free(again);
    free(once_more);
    lab_report_free(&report);
}

static void test_markdown__of_all_kinds__has_whole_tables(void **state) {
    (void)state;
    lab_report report;
    put_all();
    make_report(&report);
    char *text = render(&report, MARKDOWN), *rest = text, *line;
    assert_non_null(strstr(text, "**3 faster, 3 slower, 0 same, 0 ambiguous** of 6"));
    assert_non_null(strstr(text, "| slower | 0.70× |"));
    assert_non_null(
        strstr(text, "- saboteurs: 1 of 2 caught\n- honest subjects: 1 of 1 passed\n"));
    assert_non_null(strstr(text, "| `no swizzle` | `one_off` | `pass` | 1.30× |"));
    assert_non_null(strstr(text, "row 7 is wrong"));
    size_t columns = 0;
    while ((line = strsep(&rest, "\n")) != NULL) {
        size_t bars = 0;
        for (const char *at = line; *at; at++)
            bars += *at == '|' && (at == line || at[-1] != '\\');
        if (bars > 0 && columns > 0)
            assert_int_equal(bars, columns);
        columns = bars;
    }
    free(text);
    lab_report_free(&report);
}

static void test_terminal__of_all_kinds__shows_verdicts_and_plots(void **state) {
    (void)state;
    lab_report report;
    put_all();
    make_report(&report);
    char *text = render(&report, TERMINAL);
    assert_non_null(strstr(text, "3 faster, 3 slower, 0 same, 0 ambiguous of 6"));
    assert_non_null(strstr(text, "times the rival's speed"));
    assert_non_null(strstr(text, "microseconds per call"));
    assert_non_null(strstr(text, "relative to the time with all on"));
    assert_non_null(strstr(text, "measurement: 3 % slower on purpose: found in 39 of 40"));
    assert_non_null(strstr(text, "not timed: b1h8s128d64,fp16: fail: row 7 is wrong"));
    assert_null(strchr(text, '\033'));
    free(text);
    lab_report_free(&report);
}

/* ------------------------------------------------------------------ what is refused */

static void test_files__that_are_no_results__are_refused_by_name(void **state) {
    (void)state;
    clear_folder();
    const char *const none[] = {path_of("x.json")};
    lab_report report;
    assert_false(lab_report_make(&report, none, 1, &why));
    assert_non_null(strstr(why.text, "No such file"));
    const char *const pipe[] = {"/dev/null"};
    assert_false(lab_report_make(&report, pipe, 1, &why));
    assert_non_null(strstr(why.text, "neither a file nor a folder"));
    const char *const empty[] = {folder};
    assert_false(lab_report_make(&report, empty, 1, &why));
    assert_non_null(strstr(why.text, "no .json file"));

    const struct {
        const char *text, *complaint;
    } cases[] = {
        {"", "x.json:1: "},
        {"{'schema': ", "x.json:1: "},
        {"{\"schema\": \"a\", \"schema\": \"b\"}", "duplicate"},
        {"[1]", "x.json: expected an object"},
        {"{}", "x.json: schema: is missing"},
        {"{\"schema\": 3}", "x.json: schema: expected text"},
        {"{\"schema\": \"attest-nonsense-1\"}", "x.json: schema: a report cannot show"},
        {"{\"schema\": \"attest-bench-1\"}", "x.json: results"},
        {"{\"schema\": \"attest-bench-1\", \"copy_bytes\": \"x\", \"results\": []}",
         "x.json: copy_bytes: expected a number"},
        {"{\"schema\": \"attest-bench-1\", \"results\": [{\"problem\": {\"spec\": "
         "\"b1h1s8d8\"}, "
         "\"clocks_mhz\": [1, \"x\"]}]}",
         "x.json: results[0].clocks_mhz[1]: expected a number"},
        {"{\"schema\": \"attest-bench-1\", \"results\": [{\"problem\": {\"spec\": "
         "\"b1h1s8d8\"}, "
         "\"outliers\": {\"above\": \"x\"}}]}",
         "x.json: results[0].outliers.above: expected a number"},
        {"{\"schema\": \"attest-audit-1\", \"results\": [{\"name\": \"n\", \"outcome\": \"o\", "
         "\"honest\": 1}]}",
         "x.json: results[0].honest: expected true or false"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_text("x.json", cases[i].text, strlen(cases[i].text));
        if (!strstr(refusal("x.json"), cases[i].complaint))
            fail_msg("'%s' is refused with '%s'", cases[i].text, why.text);
    }
}

static void test_folder__with_another_document_of_attest__names_it(void **state) {
    (void)state;
    lab_report report;
    clear_folder();
    put_sample("x.json", peaks_text);
    const char other[] = "{\"schema\": \"attest-info-1\"}";
    put_text("y.json", other, strlen(other));
    make_report(&report);
    char *page = render(&report, HTML);
    assert_non_null(strstr(page, "attest-info-1 (not shown)"));
    free(page);
    lab_report_free(&report);
    const char foreign[] = "{\"schema\": \"sarif\"}";
    put_text("y.json", foreign, strlen(foreign));
    const char *const paths[] = {folder};
    assert_false(lab_report_make(&report, paths, 1, &why));
    assert_non_null(strstr(why.text, "schema: a report cannot show 'sarif'"));
}

/* ------------------------------------------------------------ files that are hostile */

/* Calls `visit` for every value below `value`, with the container and key or index that holds
 * it. */
typedef void visitor(json_t *root, json_t *container, const char *key, size_t index,
                     void *state);

static void walk(json_t *root, json_t *value, visitor *visit, void *state) {
    if (json_is_object(value)) {
        /* The visitor replaces values and restores them, so keys are copied first. */
        const size_t count = json_object_size(value);
        char *keys[64];
        size_t n = 0;
        const char *key;
        json_t *member;
        assert_true(count <= 64);
        json_object_foreach(value, key, member) keys[n++] = strdup(key);
        for (size_t i = 0; i < n; i++) {
            visit(root, value, keys[i], 0, state);
            walk(root, json_object_get(value, keys[i]), visit, state);
            free(keys[i]);
        }
    }
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value) && i < 4; i++) {
        visit(root, value, NULL, i, state);
        walk(root, json_array_get(value, i), visit, state);
    }
}

/* Put `other` (consumed) in place, and return the old value. */
static json_t *swap(json_t *container, const char *key, size_t index, json_t *other) {
    json_t *old =
        json_incref(key ? json_object_get(container, key) : json_array_get(container, index));
    if (key)
        json_object_set_new(container, key, other);
    else
        json_array_set_new(container, index, other);
    return old;
}

typedef struct tally {
    size_t tried, taken, refused;
    const char *name;
} tally;

/* A report of the document is either made and rendered, or refused with the file named. */
static void try_document(const json_t *root, tally *t, void check(const char *text, view v)) {
    lab_report report;
    const char *const paths[] = {path_of("x.json")};
    put_document("x.json", root);
    t->tried++;
    why.text[0] = '\0';
    if (!lab_report_make(&report, paths, 1, &why)) {
        t->refused++;
        if (!strstr(why.text, "x.json"))
            fail_msg("a refusal does not name the file: '%s'", why.text);
        return;
    }
    t->taken++;
    for (int v = 0; v < VIEWS; v++) {
        char *text = render(&report, (view)v);
        check(text, (view)v);
        free(text);
    }
    lab_report_free(&report);
}

static const char hostile[] =
    "\"'><script>alert(1)</script><img src=x onerror=alert(2)>`|@all\n\x1b[2J\xe2\x80\xae&#60;";

static void check_harmless(const char *text, view v) {
    assert_null(strchr(text, '\033'));
    assert_null(strstr(text, "\xe2\x80\xae"));
    if (v == HTML || v == PICTURES) {
        assert_int_equal(occurrences(text, "<script"), v == HTML); /* the page's own */
        assert_null(strstr(text, "<img"));
        assert_null(strstr(text, "\"'>"));
        assert_null(strstr(text, "&#60;"));
    }
    if (v == MARKDOWN)
        for (const char *at = strstr(text, "<script"); at; at = strstr(at + 1, "<script")) {
            /* only inside a code span: an odd number of backticks precedes it on its line */
            size_t ticks = 0;
            for (const char *c = at; c > text && c[-1] != '\n'; c--)
                ticks += c[-1] == '`';
            assert_int_equal(ticks % 2, 1);
        }
}

static void inject(json_t *root, json_t *container, const char *key, size_t index,
                   void *state) {
    const json_t *value =
        key ? json_object_get(container, key) : json_array_get(container, index);
    if (json_is_string(value)) {
        json_t *old = swap(container, key, index, json_string(hostile));
        try_document(root, state, check_harmless);
        json_decref(swap(container, key, index, old));
    }
    if (key) { /* the name of a field is text too: rivals are named by theirs */
        json_t *kept = json_incref(json_object_get(container, key));
        json_object_set_new(container, hostile, json_incref(kept));
        try_document(root, state, check_harmless);
        json_object_del(container, hostile);
        json_decref(kept);
    }
}

static void test_files__with_scripts_in_every_text__give_harmless_reports(void **state) {
    (void)state;
    clear_folder();
    for (int i = 0; i < SAMPLES; i++) {
        json_t *document = parse(samples[i].text);
        tally t = {.name = samples[i].name};
        walk(document, document, inject, &t);
        assert_true(t.tried > 5 && t.taken > 0);
        json_decref(document);
    }
}

static void check_anything(const char *text, view v) {
    (void)v;
    assert_true(*text != '\0');
}

static void damage(json_t *root, json_t *container, const char *key, size_t index,
                   void *state) {
    json_t *const others[] = {
        json_null(),      json_integer(-1), json_integer(INT64_MAX),
        json_real(1e308), json_integer(0),  json_string("b1h1s1"),
        json_array(),     json_object(),    json_pack("{s:{s:i}}", "a", "b", 1),
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        json_t *old = swap(container, key, index, others[i]);
        try_document(root, state, check_anything);
        json_decref(swap(container, key, index, old));
    }
    json_t *old = json_incref(key ? json_object_get(container, key) : NULL);
    if (key) {
        json_object_del(container, key);
        try_document(root, state, check_anything);
        json_object_set_new(container, key, old);
    }
}

static void test_files__with_any_field_damaged__are_shown_or_refused(void **state) {
    (void)state;
    clear_folder();
    for (int i = 0; i < SAMPLES; i++) {
        json_t *document = parse(samples[i].text);
        tally t = {.name = samples[i].name};
        walk(document, document, damage, &t);
        assert_true(t.refused > 10 && t.tried == t.refused + t.taken);
        json_decref(document);
    }
}

static void test_files__cut_off_anywhere__are_refused(void **state) {
    (void)state;
    clear_folder();
    json_t *document = parse(bench_text);
    char *text = json_dumps(document, 0);
    const size_t length = strlen(text);
    for (size_t cut = 0; cut < length; cut += 7) {
        put_text("x.json", text, cut);
        assert_non_null(strstr(refusal("x.json"), "x.json"));
    }
    free(text);
    json_decref(document);
}

static void test_file__with_too_many_results__is_refused(void **state) {
    (void)state;
    json_t *document = parse(ladder_text);
    json_t *one = parse("{'problem': {'spec': 'b1h1s1d8'}, 'timed': false}");
    json_t *results = json_array();
    for (int i = 0; i <= LAB_REPORT_TIMINGS; i++)
        json_array_append(results, one);
    json_object_set_new(document, "results", results);
    clear_folder();
    put_document("x.json", document);
    json_decref(one);
    json_decref(document);
    assert_non_null(strstr(refusal("x.json"), "x.json: a report has 20000 timings at most"));
}

static void test_file__nested_beyond_reason__is_refused(void **state) {
    (void)state;
    enum { DEEP = 100000 };
    char *text = malloc(DEEP);
    assert_non_null(text);
    memset(text, '[', DEEP);
    clear_folder();
    put_text("x.json", text, DEEP);
    free(text);
    assert_non_null(strstr(refusal("x.json"), "x.json:1: "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report__all_kinds_of_files__counts_wins_and_losses),
        cmocka_unit_test(test_report__files_in_any_order__are_put_oldest_first),
        cmocka_unit_test(test_report__versions__are_ordered_as_numbers),
        cmocka_unit_test(test_report__newer_comparison__supersedes_the_older),
        cmocka_unit_test(test_report__recorded_baseline__is_a_loss_like_any_other),
        cmocka_unit_test(test_report__kernel_of_another_family_since__is_older),
        cmocka_unit_test(test_report__medians_alone__have_speeds_and_no_verdicts),
        cmocka_unit_test(test_slots__of_rivals__are_theirs_throughout),
        cmocka_unit_test(test_slots__of_known_subjects__are_all_different),
        cmocka_unit_test(test_label__of_long_lists__is_short),
        cmocka_unit_test(test_page__problems_that_look_alike__are_two_rows),
        cmocka_unit_test(test_rates__of_experts__are_over_the_tokens),
        cmocka_unit_test(test_losses__against_itself__are_a_list_of_their_own),
        cmocka_unit_test(test_page__groups__are_in_the_order_of_the_cards),
        cmocka_unit_test(test_ladder__of_tiles_or_one_kernel__is_none),
        cmocka_unit_test(test_failures__whose_message_has_the_outcome__say_it_once),
        cmocka_unit_test(test_pictures__of_one_group_in_two_files__are_named_by_file),
        cmocka_unit_test(test_picture__by_name__is_a_file_of_its_own),
        cmocka_unit_test(test_picture__of_no_such_name__names_the_nearest),
        cmocka_unit_test(test_page__of_all_kinds__has_every_section_and_number),
        cmocka_unit_test(test_markdown__of_all_kinds__has_whole_tables),
        cmocka_unit_test(test_terminal__of_all_kinds__shows_verdicts_and_plots),
        cmocka_unit_test(test_files__that_are_no_results__are_refused_by_name),
        cmocka_unit_test(test_folder__with_another_document_of_attest__names_it),
        cmocka_unit_test(test_files__with_scripts_in_every_text__give_harmless_reports),
        cmocka_unit_test(test_files__with_any_field_damaged__are_shown_or_refused),
        cmocka_unit_test(test_files__cut_off_anywhere__are_refused),
        cmocka_unit_test(test_file__with_too_many_results__is_refused),
        cmocka_unit_test(test_file__nested_beyond_reason__is_refused),
    };
    return cmocka_run_group_tests(tests, setup_folder, remove_folder);
}
