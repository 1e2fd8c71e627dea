/* cmd_report.c: attest report. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/sink.h"
#include "lab/base/markup.h"
#include "lab/base/screen.h"
#include "lab/base/ticker.h"
#include "lab/report/report_view.h"

/* --format, or else the suffix of the file's name; the terminal if there is no file. A plot is
 * an SVG file with any name. */
static const char *format_of(const cli_options *o) {
    if (o->plot)
        return "svg";
    if (o->report_format)
        return o->report_format;
    if (!o->report_file || strcmp(o->report_file, "-") == 0)
        return "term";
    static const struct {
        const char *ending, *format;
    } endings[] = {{".html", "html"}, {".htm", "html"}, {".md", "md"}, {".txt", "term"}};
    const char *dot = strrchr(o->report_file, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof endings[0]; i++)
        if (strcmp(dot, endings[i].ending) == 0)
            return endings[i].format;
    return NULL;
}

/* Say what was written, and from how many results. Not if the report itself goes to the
 * terminal. */
static void tell(const cli_options *o, const char *format, const lab_report *report) {
    if (!o->report_file || strcmp(o->report_file, "-") == 0)
        return;
    char shown[256];
    fprintf(stdout, "wrote %s (%s): %zu file%s, %zu timing%s, %zu comparison%s\n",
            lab_plain_text(shown, sizeof shown, o->report_file, 200), format,
            report->file_count, report->file_count == 1 ? "" : "s", report->timing_count,
            report->timing_count == 1 ? "" : "s", report->pair_count,
            report->pair_count == 1 ? "" : "s");
}

/* False if the requested plot does not exist. */
static bool write_report(FILE *out, const cli_options *o, const char *format,
                         const lab_report *report) {
    lab_message why;
    if (o->plot)
        return lab_report_svg(out, report, o->plot, o->dark ? LAB_THEME_DARK : LAB_THEME_LIGHT,
                              &why) ||
               cli_complain(o, "--svg: %s", why.text);
    if (strcmp(format, "html") == 0)
        lab_report_html(out, report);
    else if (strcmp(format, "md") == 0)
        lab_report_markdown(out, report);
    else
        lab_report_terminal(out, report, lab_screen_columns(out, LAB_COLUMNS_USUAL),
                            lab_screen_has_color(out));
    return true;
}

static bool asked_well(const cli_options *o) {
    if (o->shape_count == 0)
        return cli_complain(
            o, "expected a file or a folder of results, for example: attest report "
               "evidence -o report.html");
    if (o->plot && o->report_format)
        return cli_complain(o, "--svg and --format cannot be combined");
    if (o->dark && !o->plot)
        return cli_complain(o, "--dark is for --svg: a page follows its reader's settings");
    return format_of(o) ||
           cli_complain(o, "-o %s: expected .html, .md or .txt, or --format html, md or term",
                        o->report_file);
}

cli_exit cli_report(const cli_options *o) {
    lab_report report;
    lab_message why;
    if (!asked_well(o))
        return CLI_USAGE;
    const char *format = format_of(o);
    lab_ticker ticker;
    lab_ticker_start(&ticker, stderr, "reading results", 1, 0.0);
    const bool made = lab_report_make(&report, o->shapes, o->shape_count, &why);
    lab_ticker_stop(&ticker);
    if (!made) {
        cli_complain(o, "%s", why.text);
        return CLI_USAGE;
    }
    report.price_per_hour = o->price_per_hour;
    cli_sink sink = {0};
    cli_exit result = CLI_NOT_POSSIBLE;
    if (cli_sink_open(&sink, o, o->report_file ? o->report_file : "-")) {
        if (!write_report(sink.stream, o, format, &report))
            result = CLI_USAGE;
        else if (cli_sink_commit(&sink, o)) {
            tell(o, format, &report);
            result = CLI_HOLDS;
        }
    }
    cli_sink_discard(&sink);
    lab_report_free(&report);
    return result;
}
