/* self_check_table.c: the results of `attest bench --aa` and `--inject`, from their documents,
 * as Markdown.
 *
 *     self_check_table AA.json INJECT.json
 *
 * One row per problem: how many of its trials had the right verdict, and the measured
 * effects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json_load.h"
#include "lab/base/json_node.h"

static lab_message why;

static void must(bool held) {
    if (held)
        return;
    fprintf(stderr, "self_check_table: %s\n", why.text);
    exit(1);
}

static const char *text(const lab_node *object, const char *name) {
    const char *value = NULL;
    must(lab_node_text(object, name, &value, &why));
    return value;
}

static double number(const lab_node *object, const char *name) {
    double value = 0.0;
    must(lab_node_number(object, name, &value, &why));
    return value;
}

/* A document, and its part about the check itself. */
typedef struct self_check {
    lab_node document, check;
} self_check;

static self_check read_check(const char *file) {
    json_t *document = lab_json_load(file, &why);
    must(document != NULL);
    self_check c = {.document = lab_node_root(file, document)};
    c.check = lab_node_member(&c.document, "self_check");
    must(lab_node_is_object(&c.check, &why));
    return c;
}

static const char *problem_of(const lab_node *result) {
    const lab_node problem = lab_node_member(result, "problem");
    return text(&problem, "spec");
}

/* Two cells: right verdicts out of all, and the smallest and largest effect. */
static void put_trials(const self_check *c, const char *problem) {
    const lab_node pairs = lab_node_member(&c->check, "pairs");
    const char *expected = text(&c->check, "expected");
    size_t right = 0, trials = 0;
    double least = 0.0, most = 0.0;
    must(lab_node_is_array(&pairs, &why));
    for (size_t i = 0; i < json_array_size(pairs.value); i++) {
        const lab_node pair = lab_node_element(&pairs, i);
        const lab_node verdict = lab_node_member(&pair, "verdict");
        if (!verdict.value || strcmp(problem_of(&pair), problem) != 0)
            continue;
        const double effect = number(&verdict, "effect");
        right += strcmp(text(&verdict, "verdict"), expected) == 0;
        least = trials == 0 || effect < least ? effect : least;
        most = trials == 0 || effect > most ? effect : most;
        trials++;
    }
    printf(" %zu of %zu | %+.2f to %+.2f %% |", right, trials, 100.0 * least, 100.0 * most);
}

static void put_sum(const self_check *c) {
    const double right = number(&c->check, "right"), verdicts = number(&c->check, "verdicts");
    printf(" **%.0f of %.0f** (%.1f %%) | |", right, verdicts,
           verdicts > 0.0 ? 100.0 * right / verdicts : 0.0);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("usage: self_check_table AA.json INJECT.json\n", stderr);
        return 2;
    }
    const self_check aa = read_check(argv[1]), inject = read_check(argv[2]);
    printf("| problem | kernel | µs | A/A: SAME | effects | +%g %%: SLOWER | effects |\n",
           100.0 * number(&inject.check, "slowdown"));
    puts("|---|---|---|---|---|---|---|");
    const lab_node results = lab_node_member(&aa.document, "results");
    must(lab_node_is_array(&results, &why));
    for (size_t i = 0; i < json_array_size(results.value); i++) {
        const lab_node result = lab_node_element(&results, i);
        printf("| `%s` | `%s` | %.2f |", problem_of(&result), text(&result, "kernel"),
               number(&result, "median_ns") / 1e3);
        put_trials(&aa, problem_of(&result));
        put_trials(&inject, problem_of(&result));
        putchar('\n');
    }
    printf("| all | | |");
    put_sum(&aa);
    put_sum(&inject);
    printf("\n\nMinimum effect of the A/A run: %.2f %%.\n",
           100.0 * number(&aa.document, "minimum_effect"));
    json_decref(aa.document.value);
    json_decref(inject.document.value);
    return 0;
}
