/* self_check_table.c: what `attest bench --aa` and `--inject` found, from their documents, as Markdown.
 *
 *     self_check_table AA.json INJECT.json
 *
 * A row a problem: how many of its trials had the right verdict, and the effects that were measured. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *path;

static void fail(const char *what) {
    fprintf(stderr, "self_check_table: %s: %s\n", path, what);
    exit(1);
}

static const char *text(const json_t *object, const char *name) {
    const char *value = json_string_value(json_object_get(object, name));
    if (!value)
        fail(name);
    return value;
}

static double number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value))
        fail(name);
    return json_number_value(value);
}

static json_t *read_check(const char *file) {
    json_error_t error;
    path = file;
    json_t *document = json_load_file(file, 0, &error);
    if (!document)
        fail(error.text);
    if (!json_is_object(json_object_get(document, "self_check")))
        fail("self_check");
    return document;
}

static const char *problem_of(const json_t *result) {
    return text(json_object_get(result, "problem"), "spec");
}

/* Two cells: right verdicts of all, and the least and greatest effect. */
static void put_trials(const json_t *document, const char *problem) {
    const json_t *check = json_object_get(document, "self_check");
    const json_t *pairs = json_object_get(check, "pairs");
    const char *expected = text(check, "expected");
    size_t right = 0, trials = 0, i;
    double least = 0.0, most = 0.0;
    json_t *pair;
    json_array_foreach(pairs, i, pair) {
        const json_t *verdict = json_object_get(pair, "verdict");
        if (!verdict || strcmp(problem_of(pair), problem) != 0)
            continue;
        const double effect = number(verdict, "effect");
        right += strcmp(text(verdict, "verdict"), expected) == 0;
        least = trials == 0 || effect < least ? effect : least;
        most = trials == 0 || effect > most ? effect : most;
        trials++;
    }
    printf(" %zu of %zu | %+.2f to %+.2f %% |", right, trials, 100.0 * least, 100.0 * most);
}

static void put_sum(const json_t *document) {
    const json_t *check = json_object_get(document, "self_check");
    const double right = number(check, "right"), verdicts = number(check, "verdicts");
    printf(" **%.0f of %.0f** (%.1f %%) | |", right, verdicts,
           verdicts > 0.0 ? 100.0 * right / verdicts : 0.0);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("usage: self_check_table AA.json INJECT.json\n", stderr);
        return 2;
    }
    json_t *aa = read_check(argv[1]), *inject = read_check(argv[2]);
    const double slowdown = number(json_object_get(inject, "self_check"), "slowdown");
    printf("| problem | kernel | µs | A/A: SAME | effects | +%g %%: SLOWER | effects |\n",
           100.0 * slowdown);
    puts("|---|---|---|---|---|---|---|");
    const json_t *results = json_object_get(aa, "results");
    json_t *result;
    size_t i;
    json_array_foreach(results, i, result) {
        printf("| `%s` | `%s` | %.2f |", problem_of(result), text(result, "kernel"),
               number(result, "median_ns") / 1e3);
        put_trials(aa, problem_of(result));
        put_trials(inject, problem_of(result));
        putchar('\n');
    }
    printf("| all | | |");
    put_sum(aa);
    put_sum(inject);
    printf("\n\nMinimum effect of the A/A run: %.2f %%.\n",
           100.0 * number(aa, "minimum_effect"));
    json_decref(aa);
    json_decref(inject);
    return 0;
}
