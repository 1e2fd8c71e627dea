/* report_page_summary.c: the head of the page: what was measured, on which device, with which
 * kernels, against whom and when. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_page.h"

/* Names in the order of first occurrence, each once. */
typedef struct names {
    const char **list;
    size_t count;
} names;

static void add_name(names *n, const char *name) {
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->list[i], name) == 0)
            return;
    n->list[n->count++] = name;
}

static bool names_make(names *n, size_t most) {
    *n = (names){.list = calloc(most + 1, sizeof *n->list)};
    return n->list != NULL;
}

static void put_names(lab_page *page, const char *title, const names *n) {
    if (n->count == 0)
        return;
    lab_markup(page->out, "<dt>%s</dt><dd>", title);
    for (size_t i = 0; i < n->count; i++)
        lab_markup(page->out, "%s%s", i > 0 ? " · " : "", n->list[i]);
    lab_markup(page->out, "</dd>\n");
}

static void put_measured(lab_page *page) {
    const lab_report *r = page->report;
    names problems, operations;
    if (r->timing_count == 0 || !names_make(&problems, r->timing_count))
        return;
    if (names_make(&operations, r->timing_count)) {
        for (size_t i = 0; i < r->timing_count; i++)
            add_name(&problems, r->timings[i].problem);
        for (size_t i = 0; i < problems.count; i++)
            add_name(&operations, lab_report_operation(problems.list[i]));
        lab_markup(page->out, "<dt>measured</dt><dd>%zu problem%s of ", problems.count,
                   problems.count == 1 ? "" : "s");
        for (size_t i = 0; i < operations.count; i++)
            lab_markup(page->out, "%s%s", i > 0 ? ", " : "", operations.list[i]);
        lab_markup(page->out, " in %zu timing%s</dd>\n", r->timing_count,
                   r->timing_count == 1 ? "" : "s");
        free(operations.list);
    }
    free(problems.list);
}

static void put_devices(lab_page *page) {
    const lab_report *r = page->report;
    names devices;
    if (!names_make(&devices, r->file_count))
        return;
    for (size_t i = 0; i < r->file_count; i++)
        if (*r->files[i].device)
            add_name(&devices, r->files[i].device);
    put_names(page, "on", &devices);
    free(devices.list);
}

/* Kernels of attest, current ones before those that a later file has replaced. */
static void put_kernels(lab_page *page) {
    const lab_report *r = page->report;
    names serve, older;
    if (!names_make(&serve, r->timing_count))
        return;
    if (names_make(&older, r->timing_count)) {
        for (size_t i = 0; i < r->timing_count; i++) {
            const lab_report_timing *t = &r->timings[i];
            if (t->ours && *t->kernel)
                add_name(t->older || t->rung ? &older : &serve, t->kernel);
        }
        if (serve.count > 0) {
            lab_markup(page->out,
                       "<dt>by</dt><dd><details><summary>%zu kernel%s of attest%s</summary>\n",
                       serve.count, serve.count == 1 ? "" : "s",
                       older.count > 0 ? ", without older ones and the ladder" : "");
            for (size_t i = 0; i < serve.count; i++)
                lab_markup(page->out, "<code>%s</code><br/>\n", serve.list[i]);
            lab_markup(page->out, "</details></dd>\n");
        }
        free(older.list);
    }
    free(serve.list);
}

static void put_rivals(lab_page *page) {
    const lab_report *r = page->report;
    names rivals;
    if (!names_make(&rivals, r->timing_count))
        return;
    for (size_t i = 0; i < r->timing_count; i++)
        if (!r->timings[i].ours && !lab_report_is_itself(&r->timings[i]))
            add_name(&rivals, lab_report_name(&r->timings[i]));
    put_names(page, "against", &rivals);
    free(rivals.list);
}

/* The day of a date, "2026-11-17" of "2026-11-17T03:13:00Z". */
static void put_dates(lab_page *page) {
    const lab_report *r = page->report;
    const char *first = NULL, *last = NULL, *version = "";
    for (size_t i = 0; i < r->file_count; i++) {
        const lab_report_file *file = &r->files[i];
        if (file->kind == LAB_REPORT_OTHER || !*file->date)
            continue;
        first = first ? first : file->date;
        last = file->date;
        version = file->version;
    }
    if (!first)
        return;
    char from[11], to[11];
    snprintf(from, sizeof from, "%.10s", first);
    snprintf(to, sizeof to, "%.10s", last);
    lab_markup(page->out, "<dt>when</dt><dd>%s", from);
    if (strcmp(from, to) != 0)
        lab_markup(page->out, " to %s", to);
    lab_markup(page->out, ", the last with attest %s</dd>\n",
               *version ? version : "of unknown version");
}

static void put_trust(lab_page *page) {
    const lab_report *r = page->report;
    const lab_report_audit audit = lab_report_audited(r);
    const size_t statements = lab_report_statements(r);
    if (statements == 0 && audit.saboteurs == 0)
        return;
    lab_markup(page->out, "<dt>trust</dt><dd>");
    if (statements > 0)
        lab_markup(page->out, "<a href=\"#attestations\">%zu attestation%s</a>", statements,
                   statements == 1 ? "" : "s");
    if (audit.saboteurs > 0) {
        const lab_report_file *file = &r->files[r->saboteurs[r->saboteur_count - 1].file];
        lab_markup(page->out,
                   "%s<a href=\"#measurement\">%zu of %zu cheating kernels caught</a>",
                   statements > 0 ? " · " : "", audit.caught, audit.saboteurs);
        if (*file->version)
            lab_markup(page->out, " by attest %s", file->version);
        char day[11];
        snprintf(day, sizeof day, "%s", file->date);
        if (*day)
            lab_markup(page->out, " on %s", day);
    }
    lab_markup(page->out, "</dd>\n");
}

void lab_page_summary(lab_page *page) {
    lab_markup(page->out, "<dl class=\"facts\">\n");
    put_measured(page);
    put_devices(page);
    put_kernels(page);
    put_rivals(page);
    put_dates(page);
    put_trust(page);
    lab_markup(page->out, "</dl>\n");
}
