/* test_plot.c: scales and their ticks, and what the plots draw. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/base/table.h"
#include "lab/report/plot.h"
#include "lab/report/report_page.h"

/* -------------------------------------------------------------------------- scales */

static void test_scale__values_within__lie_between_its_ends_in_order(void **state) {
    (void)state;
    for (int log = 0; log <= 1; log++) {
        const lab_plot_scale s = lab_plot_scale_make(log, 2.0, 50.0, 10.0, 110.0);
        assert_true(s.low < 2.0 && s.high > 50.0);
        double before = 10.0;
        for (double v = 2.0; v <= 50.0; v += 4.0) {
            const double x = lab_plot_at(&s, v);
            assert_true(x > before && x < 110.0);
            before = x;
        }
        assert_true(lab_plot_at(&s, 1e9) == 110.0);
        assert_true(lab_plot_at(&s, log ? 1e-9 : -1e9) == 10.0);
    }
    /* Equal ratios are equal distances on a logarithmic scale, and an axis may point down. */
    const lab_plot_scale s = lab_plot_scale_make(true, 1.0, 100.0, 200.0, 0.0);
    const double first = lab_plot_at(&s, 1.0) - lab_plot_at(&s, 10.0);
    const double second = lab_plot_at(&s, 10.0) - lab_plot_at(&s, 100.0);
    assert_true(first > 0.0 && fabs(first - second) < 1e-9);
}

static void test_scale__impossible_ends__still_make_a_scale(void **state) {
    (void)state;
    const double ends[] = {0.0, -1.0, NAN, INFINITY, -INFINITY, 1e308, 1e-308, 5.0};
    for (size_t i = 0; i < 8; i++)
        for (size_t k = 0; k < 8; k++)
            for (int log = 0; log <= 1; log++) {
                const lab_plot_scale s = lab_plot_scale_make(log, ends[i], ends[k], 0.0, 100.0);
                assert_true(isfinite(s.low) && isfinite(s.high) && s.low < s.high);
                assert_true(!log || s.low > 0.0);
                for (size_t v = 0; v < 8; v++) {
                    const double x = lab_plot_at(&s, ends[v]);
                    assert_true(x >= 0.0 && x <= 100.0);
                }
                double ticks[LAB_PLOT_TICKS];
                const size_t count = lab_plot_ticks(&s, ticks, 7);
                assert_true(count <= 7);
                for (size_t t = 0; t < count; t++)
                    assert_true(isfinite(ticks[t]));
            }
}

static void test_ticks__any_range__are_few_round_and_within(void **state) {
    (void)state;
    for (double low = 1e-9; low < 1e12; low *= 3.7)
        for (double ratio = 1.001; ratio < 1e9; ratio *= 2.3)
            for (int log = 0; log <= 1; log++) {
                const lab_plot_scale s = lab_plot_scale_make(log, low, low * ratio, 0.0, 100.0);
                double ticks[LAB_PLOT_TICKS];
                const size_t count = lab_plot_ticks(&s, ticks, 7);
                if (count < 2 || count > 7)
                    fail_msg("%zu ticks from %g to %g", count, s.low, s.high);
                for (size_t i = 0; i < count; i++) {
                    assert_true(ticks[i] >= s.low * (1.0 - 1e-6) &&
                                ticks[i] <= s.high * (1.0 + 1e-6));
                    assert_true(i == 0 || ticks[i] > ticks[i - 1]);
                }
            }
}

static void test_ticks__known_ranges__are_what_a_reader_expects(void **state) {
    (void)state;
    double ticks[LAB_PLOT_TICKS];
    const lab_plot_scale decades = lab_plot_scale_make(true, 10.0, 10000.0, 0.0, 1.0);
    const size_t count = lab_plot_ticks(&decades, ticks, 4);
    assert_int_equal(count, 4);
    assert_true(ticks[0] == 10.0 && ticks[3] == 10000.0);
    const lab_plot_scale speeds = lab_plot_scale_make(true, 0.55, 1.25, 0.0, 1.0);
    assert_int_equal(lab_plot_ticks(&speeds, ticks, 5), 4);
    assert_true(fabs(ticks[0] - 0.6) < 1e-12 && fabs(ticks[3] - 1.2) < 1e-12);
}

static void test_number__large_and_small__has_three_digits(void **state) {
    (void)state;
    char buf[32];
    const struct {
        double value;
        const char *text;
    } cases[] = {{0.0, "0"},     {0.5, "0.5"},     {1.0, "1"},      {999.0, "999"},
                 {1000.0, "1k"}, {1500.0, "1.5k"}, {2.5e6, "2.5M"}, {1e15, "1P"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lab_plot_number(buf, sizeof buf, cases[i].value);
        assert_string_equal(buf, cases[i].text);
    }
}

/* --------------------------------------------------------------------------- plots */

static const char *const rows[] = {"b1h8s512d64,fp16", "<script>alert(1)</script>"};
static const lab_plot_key series[] = {{"one", 0}, {"two \"quoted\"", 1}};
static const lab_plot_mark marks[] = {
    {.row = 0, .series = 0, .value = 1.1, .low = 1.0, .high = 1.2, .note = "first"},
    {.row = 0, .series = 1, .value = 0.6, .low = 0.6, .high = 0.6, .note = "second & last"},
    {.row = 1, .series = 0, .value = 0.8, .low = 0.5, .high = 1.4, .note = NULL},
};
static const lab_plot_intervals intervals = {.title = "title <1>",
                                             .summary = "summary",
                                             .axis = "axis",
                                             .rows = rows,
                                             .row_count = 2,
                                             .series = series,
                                             .series_count = 2,
                                             .marks = marks,
                                             .mark_count = 3,
                                             .log = true,
                                             .line = 1.0,
                                             .line_low = "slower",
                                             .line_high = "faster"};

static size_t occurrences(const char *text, const char *word) {
    size_t count = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        count++;
    return count;
}

static void test_intervals__as_svg__have_every_mark_and_a_description(void **state) {
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    lab_plot_intervals_svg(out, &intervals, "p1");
    fclose(out);
    assert_int_equal(occurrences(text, "class=\"span "), 3);
    assert_int_equal(occurrences(text, "class=\"mark "), 5); /* two in the legend */
    assert_non_null(strstr(text, "role=\"img\" aria-labelledby=\"p1-t p1-d\""));
    assert_non_null(strstr(text, "<title id=\"p1-t\">title &lt;1&gt;</title>"));
    assert_non_null(strstr(text, "<desc id=\"p1-d\">summary</desc>"));
    assert_non_null(strstr(text, "second &amp; last"));
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "nan"));
    assert_int_equal(occurrences(text, "<svg"), occurrences(text, "</svg>"));
    assert_int_equal(occurrences(text, "<path"),
                     occurrences(text, "</path>") + occurrences(text, "\"/>"));
    free(text);
}

static void test_intervals__as_rows__have_every_mark_and_no_place_in_points(void **state) {
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    lab_plot_intervals_rows(out, &intervals, "p1");
    fclose(out);
    assert_int_equal(occurrences(text, "<div class=\"row\">"), 2);
    assert_int_equal(occurrences(text, "class=\"span "), 3);
    assert_int_equal(occurrences(text, "class=\"mark "), 5);  /* two in the legend */
    assert_int_equal(occurrences(text, "href=\"#p1-g\""), 2); /* the grid, drawn once */
    assert_int_equal(occurrences(text, "id=\"p1-g\""), 1);
    for (const char *at = strstr(text, " x1=\""); at; at = strstr(at + 1, " x1=\""))
        assert_true(at[5 + strcspn(at + 5, "%\"")] == '%');
    assert_non_null(strstr(text, "second &amp; last"));
    assert_null(strstr(text, "<script"));
    assert_int_equal(occurrences(text, "<svg"), occurrences(text, "</svg>"));
    assert_int_equal(occurrences(text, "<div"), occurrences(text, "</div>"));
    free(text);
}

/* No two slots have the same outline, colour and filling, on the page and in pictures. */
static void test_slots__of_any_two_series__look_different(void **state) {
    (void)state;
    for (int picture = 0; picture <= 1; picture++) {
        char *text = NULL, looks[LAB_PLOT_SERIES][256];
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);
        if (picture)
            lab_picture_style(out, LAB_THEME_LIGHT);
        else
            lab_page_style(out);
        fclose(out);
        for (size_t i = 0; i < LAB_PLOT_SERIES; i++) {
            char rule[32], hollow[2][32];
            snprintf(rule, sizeof rule, ".s%zu{color:", i);
            snprintf(hollow[0], sizeof hollow[0], ".mark.s%zu,", i);
            snprintf(hollow[1], sizeof hollow[1], ".mark.s%zu{fill:", i);
            const char *at = strstr(text, rule);
            if (!at)
                fail_msg("slot %zu has no colour", i);
            at += strlen(rule);
            snprintf(looks[i], sizeof looks[i], "%s %.*s %d", lab_plot_outline(i),
                     (int)strcspn(at, "}"), at,
                     strstr(text, hollow[0]) || strstr(text, hollow[1]));
            for (size_t k = 0; k < i; k++)
                if (strcmp(looks[k], looks[i]) == 0)
                    fail_msg("slots %zu and %zu look alike: %s", k, i, looks[i]);
        }
        free(text);
    }
}

static const lab_plot_spot spots[] = {{.x = 512.0, .y = 300.0, .series = 0, .note = "a & b"},
                                      {.x = 16384.0, .y = 700.0, .series = 0},
                                      {.x = 512.0, .y = 200.0, .series = 1},
                                      {.x = 16384.0, .y = 500.0, .series = 1}};
static const lab_plot_ceiling ceilings[] = {{.name = "the most", .value = 989.0},
                                            {.name = "seen", .value = 759.0, .dashed = true}};
static const lab_plot_curves curves = {.title = "t <1>",
                                       .summary = "s",
                                       .x_axis = "keys",
                                       .y_axis = "TFLOP/s",
                                       .series = series,
                                       .series_count = 2,
                                       .spots = spots,
                                       .spot_count = 4,
                                       .ceilings = ceilings,
                                       .ceiling_count = 2};

static void test_curves__below_ceilings__have_a_line_for_each_series(void **state) {
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    const double height = lab_plot_curves_svg(out, &curves, "c");
    fclose(out);
    char box[64];
    snprintf(box, sizeof box, "viewBox=\"0 0 %d %.1f\"", LAB_PLOT_WIDTH, height);
    assert_non_null(strstr(text, box));
    assert_int_equal(occurrences(text, "class=\"line "), 2);
    assert_int_equal(occurrences(text, "class=\"mark "), 4);
    assert_int_equal(occurrences(text, "class=\"roof\""), 1);
    assert_int_equal(occurrences(text, "class=\"roof seen\""), 1);
    assert_non_null(strstr(text, ">512</text>"));
    assert_non_null(strstr(text, ">16k</text>"));
    assert_non_null(strstr(text, "the most · seen"));
    assert_non_null(strstr(text, "a &amp; b"));
    assert_true(strstr(text, "line s1") < strstr(text, "line s0")); /* the first lies on top */
    free(text);
}

static void test_curves__over_runs__have_their_names_below(void **state) {
    (void)state;
    static const char *const names[] = {"0.1.0", "11-15"};
    const lab_plot_spot runs[] = {{.x = 0.0, .y = 30.0}, {.x = 1.0, .y = 3.0}};
    const lab_plot_curves plot = {.title = "t",
                                  .summary = "s",
                                  .x_axis = "runs",
                                  .y_axis = "us",
                                  .x_names = names,
                                  .x_count = 2,
                                  .log_y = true,
                                  .series = series,
                                  .series_count = 1,
                                  .spots = runs,
                                  .spot_count = 2};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    lab_plot_curves_svg(out, &plot, "c");
    fclose(out);
    assert_non_null(strstr(text, ">0.1.0</text>"));
    assert_non_null(strstr(text, ">11-15</text>"));
    assert_null(strstr(text, "nan"));
    free(text);
}

static void test_panels__side_by_side__share_one_legend(void **state) {
    (void)state;
    const lab_plot_panel panels[] = {{"first", "<path/>"}, {"second & last", "<path/>"}};
    const lab_plot_panels plot = {.title = "both",
                                  .summary = "s",
                                  .panels = panels,
                                  .panel_count = 2,
                                  .series = series,
                                  .series_count = 2};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_true(lab_plot_panels_svg(out, &plot, "b") > 200.0);
    fclose(out);
    assert_int_equal(occurrences(text, "class=\"mark "), 2);
    assert_int_equal(occurrences(text, "class=\"panel\""), 2);
    assert_non_null(strstr(text, "second &amp; last"));
    assert_int_equal(occurrences(text, "<g"), occurrences(text, "</g>"));
    free(text);
}

static void test_intervals__as_text__keep_to_their_width(void **state) {
    (void)state;
    for (size_t columns = 40; columns <= 200; columns += 7)
        for (int color = 0; color <= 1; color++) {
            char *text = NULL;
            size_t length = 0;
            FILE *out = open_memstream(&text, &length);
            lab_plot_intervals_text(out, &intervals, columns, color);
            fclose(out);
            assert_int_equal(occurrences(text, "\033[") > 0, color);
            size_t widest = 0;
            char *rest = text, *line;
            while (!color && (line = strsep(&rest, "\n")) != NULL) {
                const size_t width = lab_text_width(line);
                widest = width > widest ? width : widest;
            }
            assert_true(color || (widest <= columns && widest > columns / 2));
            free(text);
        }
}

static void test_intervals__as_text__put_marks_on_their_side_of_the_line(void **state) {
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    lab_plot_intervals_text(out, &intervals, 80, false);
    fclose(out);
    const char *faster = strstr(text, "b1h8s512d64,fp16");
    assert_non_null(faster);
    const char *end = strchr(faster, '\n');
    const char *mark = memchr(faster, 'o', (size_t)(end - faster));
    const char *number = strstr(faster, "1.1");
    assert_true(mark && number && number < end && mark < number);
    const char *slower = end + 1; /* the other series of the row: below the line at 1 */
    const char *slower_end = strchr(slower, '\n');
    const char *cross = memchr(slower, 'x', (size_t)(slower_end - slower));
    const char *line = memchr(slower, '|', (size_t)(slower_end - slower));
    assert_true(cross && line && cross < line);
    free(text);
}

static void test_roofline__with_limits__draws_every_point_below_them(void **state) {
    (void)state;
    const lab_plot_roof roofs[] = {{.name = "arithmetic", .rate = 1e15},
                                   {.name = "memory", .slanted = true, .rate = 4e12},
                                   {.name = "none", .rate = 0.0}};
    const lab_plot_point points[] = {
        {.intensity = 4.0, .rate = 1e13, .note = "a"},
        {.intensity = 1000.0, .rate = 5e14, .series = 1, .note = "b"}};
    const lab_plot_roofline plot = {.title = "t",
                                    .summary = "s",
                                    .roofs = roofs,
                                    .roof_count = 3,
                                    .series = series,
                                    .series_count = 2,
                                    .points = points,
                                    .point_count = 2};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    lab_plot_roofline_svg(out, &plot, "r");
    fclose(out);
    assert_int_equal(occurrences(text, "class=\"mark "), 4);
    assert_int_equal(occurrences(text, "class=\"roof\""), 2 + 3); /* two lines, three names */
    assert_null(strstr(text, "nan"));
    free(text);
}

static void test_waterfall__steps_up_and_down__are_gains_and_costs(void **state) {
    (void)state;
    const char *const steps[] = {"all off", "helps", "hurts", "all on"};
    const double values[] = {100.0, 60.0, 70.0, 40.0}, low[] = {99.0, 59.0, 69.0, 39.0},
                 high[] = {101.0, 61.0, 71.0, 41.0};
    const lab_plot_waterfall plot = {.title = "t",
                                     .summary = "s",
                                     .axis = "us",
                                     .steps = steps,
                                     .values = values,
                                     .low = low,
                                     .high = high,
                                     .count = 4};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    lab_plot_waterfall_svg(out, &plot, "w");
    fclose(out);
    assert_int_equal(occurrences(text, "class=\"whole\""), 2);
    assert_int_equal(occurrences(text, "class=\"gain\""), 1);
    assert_int_equal(occurrences(text, "class=\"cost\""), 1);
    assert_non_null(strstr(text, "-40.0 %"));
    assert_non_null(strstr(text, "+16.7 %"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scale__values_within__lie_between_its_ends_in_order),
        cmocka_unit_test(test_scale__impossible_ends__still_make_a_scale),
        cmocka_unit_test(test_ticks__any_range__are_few_round_and_within),
        cmocka_unit_test(test_ticks__known_ranges__are_what_a_reader_expects),
        cmocka_unit_test(test_number__large_and_small__has_three_digits),
        cmocka_unit_test(test_slots__of_any_two_series__look_different),
        cmocka_unit_test(test_intervals__as_svg__have_every_mark_and_a_description),
        cmocka_unit_test(test_intervals__as_rows__have_every_mark_and_no_place_in_points),
        cmocka_unit_test(test_curves__below_ceilings__have_a_line_for_each_series),
        cmocka_unit_test(test_curves__over_runs__have_their_names_below),
        cmocka_unit_test(test_panels__side_by_side__share_one_legend),
        cmocka_unit_test(test_intervals__as_text__keep_to_their_width),
        cmocka_unit_test(test_intervals__as_text__put_marks_on_their_side_of_the_line),
        cmocka_unit_test(test_roofline__with_limits__draws_every_point_below_them),
        cmocka_unit_test(test_waterfall__steps_up_and_down__are_gains_and_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
