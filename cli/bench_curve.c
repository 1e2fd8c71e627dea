/* bench_curve.c: speed as a function of size, drawn in text. */
#include "cli/bench_curve.h"

#include "lab/measure/curve.h"

enum { WIDTH = 50 }; /* of the longest bar */

static double speed_of(const lab_bench_case *c) {
    return c->timed ? lab_bench_gflops(c, c->ns.median) : 0.0;
}

static size_t put_curve(FILE *text, const lab_bench_case *cases, size_t step, size_t from,
                        size_t end, bool gpu) {
    double most = 0.0;
    size_t cliffs = 0;
    for (size_t i = from; i < end; i += step)
        most = speed_of(&cases[i]) > most ? speed_of(&cases[i]) : most;
    fprintf(text, "\n%s\n", gpu ? "TFLOP/s" : "GFLOP/s");
    for (size_t i = from; i < end; i += step) {
        const double speed = speed_of(&cases[i]);
        const double fall = lab_curve_fall(cases, step, from, end, i);
        const int bar = most > 0.0 ? (int)(WIDTH * speed / most + 0.5) : 0;
        char line[LAB_SPEC_MAX];
        lab_spec_print(cases[i].spec, line, sizeof line);
        fprintf(text, "%8.1f  %.*s%*s  %s", gpu ? speed / 1e3 : speed, bar,
                "##################################################", WIDTH - bar, "", line);
        if (fall > 0.0)
            fprintf(text, "  <- %.0f %% below its neighbour", 100.0 * fall);
        fputc('\n', text);
        cliffs += fall > 0.0;
    }
    return cliffs;
}

void cli_put_curves(FILE *text, const lab_bench_case *cases, size_t count, size_t subjects,
                    bool gpu) {
    size_t curves = 0, cliffs = 0;
    for (size_t from = 0, end; from < count; from = end) {
        lab_curve_next(cases, count, subjects, from, &end);
        if ((end - from) / subjects < LAB_CURVE_LEAST)
            continue;
        curves++;
        cliffs += put_curve(text, cases, subjects, from, end, gpu);
    }
    if (curves)
        fprintf(text, "\n%zu cliff%s on %zu curve%s\n", cliffs, cliffs == 1 ? "" : "s", curves,
                curves == 1 ? "" : "s");
}
