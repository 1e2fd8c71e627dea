/* report_markdown.c: a report as Markdown, for a pull request. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_view.h"

/* The most losses, times and files that are listed; the page has them all. A comment in a pull
 * request holds 65536 bytes. */
enum { LOSSES_LISTED = 25, TIMES_LISTED = 150, FILES_LISTED = 100 };

static void md_cell(FILE *out, const char *text) {
    fputs("| ", out);
    lab_markup_code(out, text);
    fputc(' ', out);
}

static void md_verdicts(FILE *out, const lab_report *r) {
    size_t counts[LAB_VERDICTS] = {0};
    lab_report_tally *tallies;
    const size_t count = lab_report_tallies(r, &tallies);
    const size_t total = lab_report_count(r, r->pairs, r->pair_count, false, counts);
    fprintf(out, "**%zu faster, %zu slower, %zu same, %zu ambiguous** of %zu comparisons",
            counts[LAB_FASTER], counts[LAB_SLOWER], counts[LAB_SAME], counts[LAB_AMBIGUOUS],
            total);
    if (r->pair_count > total)
        fprintf(out, "; %zu more are of older kernels", r->pair_count - total);
    fputs(".\n\n| device | against | problems | faster | slower | same | ambiguous | medians "
          "only "
          "| mean speed | worst |\n|---|---|---|---:|---:|---:|---:|---:|---:|---|\n",
          out);
    for (size_t i = 0; i < count; i++) {
        const lab_report_tally *t = &tallies[i];
        char label[512], rival[256];
        md_cell(out, t->device);
        snprintf(rival, sizeof rival, "%.200s%s", t->rival, t->older ? " (older kernels)" : "");
        md_cell(out, rival);
        md_cell(out, t->group);
        for (int k = 0; k < LAB_VERDICTS; k++)
            fprintf(out, "| %zu ", t->counts[k]);
        fprintf(out, "| %zu | %.2f× | %.2f×, ", t->unjudged, t->mean, t->worst->speed);
        lab_markup_code(out,
                        lab_report_label(label, sizeof label, &r->timings[t->worst->ours]));
        fputs(" |\n", out);
    }
    free(tallies);
}

static void md_losses(FILE *out, const lab_report *r, bool itself) {
    const lab_report_pair **losses;
    const size_t count = lab_report_losses(r, false, itself, &losses);
    if (count > 0)
        fprintf(out,
                "\n### Losses%s\n\n| verdict | speed | 95 %% interval | problem | rival | "
                "kernel |\n|---|---:|---:|---|---|---|\n",
                itself ? " against itself" : "");
    for (size_t i = 0; i < count && i < LOSSES_LISTED; i++) {
        const lab_report_pair *pair = losses[i];
        char label[512];
        fprintf(out, "| %s | %.2f× | %.2f – %.2f ", lab_report_verdict_word(pair->verdict.kind),
                pair->speed, pair->low, pair->high);
        md_cell(out, lab_report_label(label, sizeof label, &r->timings[pair->ours]));
        md_cell(out, lab_report_name(&r->timings[pair->theirs]));
        md_cell(out, r->timings[pair->ours].kernel);
        fputs("|\n", out);
    }
    if (count > LOSSES_LISTED)
        fprintf(out, "\nand %zu more.\n", count - LOSSES_LISTED);
    free(losses);
}

static void md_failures(FILE *out, const lab_report *r) {
    bool any = false;
    for (size_t i = 0; i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        char label[512], problem[600], more[LAB_REPORT_MORE];
        if (!lab_report_failure_stands(r, i, more))
            continue;
        snprintf(problem, sizeof problem, "%s%s", lab_report_label(label, sizeof label, t),
                 more);
        if (!any)
            fputs("\n### Not timed\n\n| problem | subject | why |\n|---|---|---|\n", out);
        any = true;
        md_cell(out, problem);
        md_cell(out, lab_report_name(t));
        md_cell(out, t->failure);
        fputs("|\n", out);
    }
}

static void md_times(FILE *out, const lab_report *r) {
    size_t count = 0;
    for (size_t i = 0; i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        char label[512], time[32], low[32], high[32];
        if (r->files[t->file].kind != LAB_REPORT_BENCH || t->samples.count == 0)
            continue;
        if (count++ == 0)
            fputs("\n<details><summary>Times</summary>\n\n| problem | subject | kernel | "
                  "median | 95 % "
                  "interval |\n|---|---|---|---:|---:|\n",
                  out);
        if (count > TIMES_LISTED)
            continue;
        md_cell(out, lab_report_label(label, sizeof label, t));
        md_cell(out, t->subject);
        md_cell(out, t->kernel);
        fprintf(out, "| %s | %s – %s |\n",
                lab_report_time(time, sizeof time, t->ns.median, "µ"),
                lab_report_time(low, sizeof low, t->ns.low, "µ"),
                lab_report_time(high, sizeof high, t->ns.high, "µ"));
    }
    if (count > TIMES_LISTED)
        fprintf(out, "\nand %zu more.\n", count - TIMES_LISTED);
    if (count > 0)
        fputs("\n</details>\n", out);
}

static void md_history(FILE *out, const lab_report *r) {
    size_t counts[LAB_VERDICTS] = {0};
    if (r->history_count == 0)
        return;
    lab_report_count(r, r->history, r->history_count, true, counts);
    fprintf(out,
            "\n### History\n\n%zu problems against their first run: %zu faster, %zu slower, "
            "%zu same, "
            "%zu ambiguous.\n",
            r->history_count, counts[LAB_FASTER], counts[LAB_SLOWER], counts[LAB_SAME],
            counts[LAB_AMBIGUOUS]);
    for (size_t i = 0; i < r->history_count; i++) {
        const lab_report_pair *pair = &r->history[i];
        char label[512];
        if (pair->verdict.kind != LAB_SLOWER)
            continue;
        fprintf(out, "- slower, %.2f×: ", pair->speed);
        lab_markup_code(out, lab_report_label(label, sizeof label, &r->timings[pair->ours]));
        fputc('\n', out);
    }
}

static void md_ablations(FILE *out, const lab_report *r) {
    for (size_t i = 0; i < r->ablation_count; i++) {
        const lab_report_ablation *a = &r->ablations[i];
        const lab_report_variant *on = lab_report_all_on(a);
        fputs("\n### Ablation\n\n", out);
        lab_markup_code(out, a->kernel);
        fputs(" at ", out);
        lab_markup_code(out, a->problem);
        fputs(
            "\n\n| variant | kind | answer | time, in times of all on |\n|---|---|---|---:|\n",
            out);
        for (size_t k = 0; k < a->variant_count; k++) {
            const lab_report_variant *v = &a->variants[k];
            md_cell(out, v->name);
            md_cell(out, v->kind);
            md_cell(out, v->outcome);
            if (on && v->samples.count > 0)
                fprintf(out, "| %.2f× |\n", v->ns.median / on->ns.median);
            else
                fputs("| |\n", out);
        }
    }
}

static void md_measurement(FILE *out, const lab_report *r) {
    if (r->check_count + r->saboteur_count == 0)
        return;
    fputs("\n### The measurement itself\n\n", out);
    lab_report_measurement(out, r, "- ");
}

static void md_files(FILE *out, const lab_report *r) {
    fputs("\n<details><summary>Files</summary>\n\n| file | device | attest | SHA-256 "
          "|\n|---|---|---|---|\n",
          out);
    for (size_t i = 0; i < r->file_count && i < FILES_LISTED; i++) {
        md_cell(out, r->files[i].name);
        md_cell(out, r->files[i].device);
        md_cell(out, r->files[i].version);
        md_cell(out, r->files[i].digest);
        fputs("|\n", out);
    }
    if (r->file_count > FILES_LISTED)
        fprintf(out, "\nand %zu more, listed on the HTML page.\n",
                r->file_count - FILES_LISTED);
    fputs("\n</details>\n", out);
}

void lab_report_markdown(FILE *out, const lab_report *report) {
    fputs("## attest report\n\n", out);
    if (report->pair_count + report->median_count > 0)
        md_verdicts(out, report);
    md_losses(out, report, false);
    md_losses(out, report, true);
    md_failures(out, report);
    md_history(out, report);
    md_ablations(out, report);
    md_measurement(out, report);
    md_times(out, report);
    md_files(out, report);
}
