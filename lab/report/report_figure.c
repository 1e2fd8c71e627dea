/* report_figure.c: a plot on the page, with its own name. */
#include <ctype.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_page.h"

/* ---------------------------------------------------------------------------- names */

/* Lower-case letters, digits and single hyphens: for anchors, files and the command line. */
static void make_name(char out[LAB_FIGURE_NAME], const char *text) {
    size_t n = 0;
    for (; *text && n + 8 < LAB_FIGURE_NAME; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 128 && isalnum(c))
            out[n++] = (char)tolower(c);
        else if (n > 0 && out[n - 1] != '-')
            out[n++] = '-';
    }
    while (n > 0 && out[n - 1] == '-')
        n--;
    snprintf(out + n, LAB_FIGURE_NAME - n, "%s", n > 0 ? "" : "plot");
}

static bool is_taken(const lab_page *page, const char *name) {
    for (size_t i = 0; i < page->name_count; i++)
        if (strcmp(page->names[i], name) == 0)
            return true;
    return false;
}

const char *lab_page_stem(char *buf, size_t n, const lab_report_file *file) {
    const char *slash = strrchr(file->name, '/');
    snprintf(buf, n, "%s", slash ? slash + 1 : file->name);
    char *end = strstr(buf, ".json");
    if (end)
        *end = '\0';
    return buf;
}

/* Store a name that is unique in the page; `otherwise` is added where it is taken, or a number.
 * Returns its index, or the number of names if memory ran out. */
static size_t add_name(lab_page *page, const char *text, const char *otherwise) {
    char(*names)[LAB_FIGURE_NAME] =
        lab_report_grow(page->names, page->name_count, sizeof *names, NULL);
    if (!names)
        return page->name_count;
    page->names = names;
    char base[LAB_FIGURE_NAME], longer[3 * LAB_FIGURE_NAME], *name = names[page->name_count];
    make_name(base, text);
    if (otherwise && is_taken(page, base)) {
        snprintf(longer, sizeof longer, "%s %.100s", base, otherwise);
        make_name(base, longer);
    }
    snprintf(name, LAB_FIGURE_NAME, "%s", base);
    for (size_t i = 2; is_taken(page, name); i++)
        snprintf(name, LAB_FIGURE_NAME, "%.*s-%zu", LAB_FIGURE_NAME - 12, base, i);
    return page->name_count++;
}

/* Store the figure's name and then those of its panels; false if memory ran out. */
static bool add_names(lab_page *page, const lab_figure *figure, size_t *first) {
    const size_t panels =
        figure->panel_count > 1 || figure->columns > 0 ? figure->panel_count : 0;
    *first = add_name(page, figure->name, figure->otherwise);
    if (*first == page->name_count)
        return false;
    for (size_t i = 0; i < panels; i++) {
        char text[3 * LAB_FIGURE_NAME];
        snprintf(text, sizeof text, "%s %.80s", page->names[*first], figure->panels[i].name);
        if (add_name(page, text, NULL) == page->name_count)
            return false;
    }
    return true;
}

/* -------------------------------------------------------------------------- the page */

static void put_panels(lab_page *page, const lab_figure *figure, const char *name) {
    lab_plot_keys(page->out, figure->panels[0].series, figure->panels[0].series_count);
    lab_markup(page->out, "<div class=\"panels\">\n");
    for (size_t i = 0; i < figure->panel_count; i++) {
        char id[LAB_FIGURE_NAME + 24];
        snprintf(id, sizeof id, "%s.%zu", name, i);
        lab_markup(page->out, "<div>\n");
        if (figure->panel_count > 1 || figure->columns > 0)
            lab_markup(page->out, "<h4>%s</h4>\n", figure->panels[i].title);
        lab_plot_curves_svg(page->out, &figure->panels[i], id);
        lab_markup(page->out, "</div>\n");
    }
    lab_markup(page->out, "</div>\n");
}

void lab_page_figure(lab_page *page, const lab_figure *figure) {
    static const char *const columns[] = {"plain", "of1", "of2", "of3", "of4"};
    size_t first;
    const bool named = add_names(page, figure, &first);
    const char *name = named ? page->names[first] : "";
    lab_markup(page->out, "<figure id=\"plot-%s\" class=\"%s\">\n<figcaption>%s</figcaption>\n",
               name,
               figure->filters  ? "filters"
               : figure->beside ? "beside"
                                : columns[figure->columns < 4 ? figure->columns : 4],
               figure->caption);
    if (figure->note)
        lab_markup(page->out, "<p class=\"soft\">%s</p>\n", figure->note);
    if (figure->intervals)
        lab_plot_intervals_rows(page->out, figure->intervals, name);
    else if (figure->roofline)
        lab_plot_roofline_svg(page->out, figure->roofline, name);
    else if (figure->waterfall)
        lab_plot_waterfall_svg(page->out, figure->waterfall, name);
    else
        put_panels(page, figure, name);
    if (page->picture && named)
        lab_picture_offer(page->picture, figure, name,
                          first + 1 < page->name_count ? &page->names[first + 1] : NULL);
}
