/* report_picture.c: a plot of the page as a separate file, or panels of several side by
 * side. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/base/suggest.h"
#include "lab/report/report_page.h"

/* --------------------------------------------------------------------------- panels */

static void add_keys(lab_picture *picture, const lab_plot_curves *panel) {
    for (size_t i = 0; i < panel->series_count; i++) {
        size_t at = 0;
        while (at < picture->series_count && picture->series[at].slot < panel->series[i].slot)
            at++;
        const bool has =
            at < picture->series_count && picture->series[at].slot == panel->series[i].slot;
        if (has || picture->series_count == LAB_PLOT_SERIES)
            continue;
        memmove(&picture->series[at + 1], &picture->series[at],
                (picture->series_count - at) * sizeof picture->series[0]);
        picture->series[at] = panel->series[i];
        picture->series_count++;
    }
}

/* Keep the panel as text for later: its data does not live that long. */
static void keep_panel(lab_picture *picture, size_t at, const lab_figure *figure,
                       const lab_plot_curves *panel) {
    size_t length = 0;
    FILE *out = open_memstream(&picture->areas[at], &length);
    if (!out)
        return;
    lab_plot_curves_area(out, panel);
    fclose(out);
    picture->titles[at] = strdup(panel->title);
    picture->title = figure->device;
    add_keys(picture, panel);
}

/* All panels of one figure. */
static double put_figure_panels(lab_picture *picture, const lab_figure *figure,
                                const char *name) {
    lab_plot_panel *panels = calloc(figure->panel_count, sizeof *panels);
    double height = 0.0;
    for (size_t i = 0; panels && i < figure->panel_count; i++) {
        char *text = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);
        if (out) {
            lab_plot_curves_area(out, &figure->panels[i]);
            fclose(out);
        }
        panels[i] =
            (lab_plot_panel){.title = figure->panels[i].title, .area = text ? text : ""};
        add_keys(picture, &figure->panels[i]);
    }
    const lab_plot_panels plot = {.title = figure->caption,
                                  .summary = figure->panels[0].summary,
                                  .panels = panels,
                                  .panel_count = panels ? figure->panel_count : 0,
                                  .series = picture->series,
                                  .series_count = picture->series_count};
    height = lab_plot_panels_svg(picture->out, &plot, name);
    for (size_t i = 0; panels && i < figure->panel_count; i++)
        if (*panels[i].area)
            free((void *)panels[i].area);
    free(panels);
    return height;
}

/* --------------------------------------------------------------------------- figures */

static void put_figure(lab_picture *picture, const lab_figure *figure, const char *name) {
    picture->width = figure->roofline || figure->waterfall ? LAB_PLOT_WIDTH : LAB_PLOT_WIDE;
    if (figure->intervals)
        picture->height = lab_plot_intervals_svg(picture->out, figure->intervals, name);
    else if (figure->roofline)
        picture->height = lab_plot_roofline_svg(picture->out, figure->roofline, name);
    else if (figure->waterfall)
        picture->height = lab_plot_waterfall_svg(picture->out, figure->waterfall, name);
    else
        picture->height = put_figure_panels(picture, figure, name);
}

void lab_picture_offer(lab_picture *picture, const lab_figure *figure, const char *name,
                       char (*panel_names)[LAB_FIGURE_NAME]) {
    const size_t panels =
        figure->panel_count > 1 || figure->columns > 0 ? figure->panel_count : 0;
    if (picture->wanted_count == 1 && picture->height == 0.0 &&
        strcmp(picture->wanted[0], name) == 0)
        put_figure(picture, figure, name);
    for (size_t i = 0; panel_names && i < panels; i++)
        for (size_t k = 0; k < picture->wanted_count; k++)
            if (!picture->areas[k] && strcmp(picture->wanted[k], panel_names[i]) == 0)
                keep_panel(picture, k, figure, &figure->panels[i]);
}

/* Write the requested panels once all exist; returns the index of the first missing one, or
 * their count. */
static size_t put_wanted_panels(lab_picture *picture) {
    lab_plot_panel panels[LAB_PICTURE_PANELS];
    for (size_t i = 0; i < picture->wanted_count; i++) {
        if (!picture->areas[i] || !picture->titles[i])
            return i;
        panels[i] = (lab_plot_panel){.title = picture->titles[i], .area = picture->areas[i]};
    }
    const lab_plot_panels plot = {.title = picture->title,
                                  .summary = "Rates over the length, a line for each subject.",
                                  .panels = panels,
                                  .panel_count = picture->wanted_count,
                                  .series = picture->series,
                                  .series_count = picture->series_count};
    picture->width = LAB_PLOT_WIDE;
    picture->height = lab_plot_panels_svg(picture->out, &plot, "plot");
    return picture->wanted_count;
}

/* ----------------------------------------------------------------------------- a file */

static bool read_wanted(lab_picture *picture, const char *list, lab_message *why) {
    for (;; list++) {
        const size_t length = strcspn(list, ",");
        if (picture->wanted_count == LAB_PICTURE_PANELS)
            return lab_fail(why, "at most %d plots fit side by side", LAB_PICTURE_PANELS);
        snprintf(picture->wanted[picture->wanted_count++], LAB_FIGURE_NAME, "%.*s",
                 (int)(length < LAB_FIGURE_NAME ? length : LAB_FIGURE_NAME - 1), list);
        list += length;
        if (!*list)
            return true;
    }
}

static bool no_plot(const lab_page *page, const char *wanted, lab_message *why) {
    lab_suggestion best = {0};
    for (size_t i = 0; i < page->name_count; i++) {
        if (strcmp(page->names[i], wanted) == 0)
            return lab_fail(why, "'%s' is a picture by itself: only panels can be combined",
                            wanted);
        lab_suggest(&best, wanted, page->names[i]);
    }
    if (page->name_count == 0)
        return lab_fail(why, "these files contain nothing to plot");
    return lab_fail(why, "there is no plot '%.60s'; %s%s%s", wanted,
                    best.word ? "did you mean '" : "--svg list names ",
                    best.word ? best.word : "those that exist", best.word ? "'?" : "");
}

/* The picture in a frame: its size, its colours, a background. */
static void put_file(FILE *out, const lab_picture *picture, const char *text, lab_theme theme) {
    enum { MARGIN = 12 };
    const double width = picture->width + 2.0 * MARGIN, height = picture->height + 2.0 * MARGIN;
    lab_markup(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
               "viewBox=\"-%d -%d %.0f %.1f\">\n<style>\n",
               width, height, MARGIN, MARGIN, width, height);
    lab_picture_style(out, theme);
    lab_markup(out,
               "</style>\n<rect class=\"page\" x=\"-%d\" y=\"-%d\" width=\"%.0f\" "
               "height=\"%.1f\"/>\n<svg width=\"%.0f\" height=\"%.1f\">\n",
               MARGIN, MARGIN, width, height, picture->width, picture->height);
    fputs(text, out);
    lab_markup(out, "</svg>\n</svg>\n");
}

/* Generate the whole page and keep only the picture. */
static bool draw(lab_page *page, lab_message *why) {
    lab_picture *picture = page->picture;
    lab_page_sections(page);
    if (picture->height > 0.0)
        return true;
    const size_t found = put_wanted_panels(picture);
    return found == picture->wanted_count || no_plot(page, picture->wanted[found], why);
}

bool lab_report_svg(FILE *out, const lab_report *report, const char *name, lab_theme theme,
                    lab_message *why) {
    char *page_text = NULL, *text = NULL;
    size_t page_length = 0, length = 0;
    lab_picture picture = {.title = "", .out = open_memstream(&text, &length)};
    lab_page page = {
        .report = report, .picture = &picture, .out = open_memstream(&page_text, &page_length)};
    const bool list = strcmp(name, "list") == 0;
    bool ok = (page.out && picture.out) || lab_fail(why, "no memory for the plot");
    ok = ok && read_wanted(&picture, name, why);
    if (ok && list)
        lab_page_sections(&page);
    else
        ok = ok && draw(&page, why);
    if (page.out)
        fclose(page.out);
    if (picture.out)
        fclose(picture.out);
    for (size_t i = 0; ok && list && i < page.name_count; i++)
        fprintf(out, "%s\n", page.names[i]);
    if (ok && !list)
        put_file(out, &picture, text, theme);
    for (size_t i = 0; i < LAB_PICTURE_PANELS; i++) {
        free(picture.areas[i]);
        free(picture.titles[i]);
    }
    free(page.names);
    free(page_text);
    free(text);
    return ok;
}
