/* test_hopper_steps.c: the model of test_hopper_barriers.c waits and arrives where fwd_sm90
 * does.
 *
 * Both are read as text: for every function, the calls that wait for or arrive at a barrier,
 * the barriers that it names, and the calls of other such functions, in order. Each function of
 * the kernel that has any must be in the model under the same name with the same steps. What
 * the kernel does inside one warpgroup is not a step of the model: a warpgroup is one agent
 * there. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/embed.h"
#include "tests/support/check.h"

enum { NAME = 64, STEPS = 2048, TEXT = 1 << 17 };

static const char *const model_file = "tests/unit/test_hopper_barriers.c";
static const char *const kernel_files[] = {
    "kernels/fwd_sm90_shared.cuh", "kernels/fwd_sm90_load.cuh", "kernels/fwd_sm90_store.cuh",
    "kernels/fwd_sm90_bias.cuh", "kernels/fwd_sm90.cu"};
enum { FILES = sizeof kernel_files / sizeof kernel_files[0] };

/* Words of the kernel and of the model, and their steps. A copy that will arrive is expected
 * where it begins. */
static const struct {
    const char *word, *step;
} calls[] = {{"mbarrier_wait", "wait"},
             {"wait_full", "wait"},
             {"wait_empty", "wait"},
             {"wait", "wait"},
             {"mbarrier_arrive", "arrive"},
             {"mbarrier_expect", "arrive"},
             {"named_barrier_arrive", "arrive"},
             {"release", "arrive"},
             {"arrive", "arrive"},
             {"named_barrier_wait", "sync"},
             {"sync", "sync"}};

static const char *const functions[] = {
    "announce",        "next_tile",      "load_keys",    "load_k",      "load_v",
    "load_q",          "leave",          "produce",      "send",        "wait_turn",
    "pass_turn",       "wait_k",         "release_k",    "wait_v",      "release_v",
    "skip_k",          "skip_v",         "wait_q",       "take_q",      "release_q_early",
    "release_q",       "is_idle",        "wait_o_place", "finish_rows", "redo_rows",
    "pass_tile",       "take_tile",      "begin_scores", "begin_tile",  "take_own_tile",
    "accumulate_last", "consume",        "bring_bias",   "wait_bias",   "release_bias",
    "follow_shaped",   "produce_values",
};
static const char *const barriers[] = {
    "k_full",  "k_empty",   "v_full",     "v_empty", "q_full", "q_empty",   "o_full",
    "o_empty", "tile_full", "tile_empty", "turn",    "stored", "bias_full", "bias_empty"};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static bool is_listed(const char *const *list, size_t count, const char *word) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], word) == 0)
            return true;
    return false;
}

/* The step for a word; NULL: none. */
static const char *step_of(const char *word, bool called) {
    static char lower[NAME];
    for (size_t i = 0; called && i < COUNT(calls); i++)
        if (strcmp(calls[i].word, word) == 0)
            return calls[i].step;
    if (called)
        return is_listed(functions, COUNT(functions), word) ? word : NULL;
    size_t n = 0;
    for (; word[n] && n < sizeof lower - 1; n++)
        lower[n] = (char)tolower((unsigned char)word[n]);
    lower[n] = '\0';
    return is_listed(barriers, COUNT(barriers), lower) ? lower : NULL;
}

static const char *past_comment(const char *at) {
    const char *end = at[0] == '/' && at[1] == '*' ? strstr(at, "*/") : NULL;
    return end ? end + 2 : at;
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* The steps of the text between two places, each followed by a space. */
static void read_steps(char steps[STEPS], const char *at, const char *end) {
    size_t used = 0;
    steps[0] = '\0';
    while (at < end) {
        const char *after = past_comment(at);
        if (after != at || !is_word(*at)) {
            at = after != at ? after : at + 1;
            continue;
        }
        char word[NAME];
        size_t n = 0;
        for (; is_word(*at); at++)
            if (n < sizeof word - 1)
                word[n++] = *at;
        word[n] = '\0';
        const char *step = step_of(word, *at == '(');
        if (step)
            used += (size_t)snprintf(steps + used, STEPS - used, "%s ", step);
        assert_true(used < STEPS);
    }
    /* Threads of one warpgroup wait for each other: no barrier of the list follows. */
    for (char *own; (own = strstr(steps, "sync ")) && strncmp(own + 5, "turn ", 5) != 0;)
        memmove(own, own + 5, strlen(own + 5) + 1);
}

/* The next function at or after `at`, whose definition begins with `prefix`: its name, its
 * steps; NULL: there are no more. */
static const char *next_function(const char *at, const char *prefix, char name[NAME],
                                 char steps[STEPS]) {
    for (; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
        if (strncmp(at, prefix, strlen(prefix)) != 0)
            continue;
        const char *open = strchr(at, '('), *body = strstr(at, "{\n"), *stop = strchr(at, ';');
        const char *end = body ? strstr(body, "\n}") : NULL;
        if (!open || !end || open > body || (stop && stop < body))
            continue;
        const char *begin = open;
        while (is_word(begin[-1]))
            begin--;
        snprintf(name, NAME, "%.*s", (int)(open - begin), begin);
        read_steps(steps, body, end);
        return end + 1;
    }
    return NULL;
}

static char model[TEXT];

/* The steps of the model's function; false if it has none of that name. */
static bool model_steps(const char *name, char steps[STEPS]) {
    char other[NAME];
    for (const char *at = model; (at = next_function(at, "static ", other, steps));)
        if (strcmp(other, name) == 0)
            return true;
    return false;
}

/* How many functions of a kernel's text have steps; prints those that the model lacks or has
 * differently. */
static int compare(const char *text, int *complaints, bool loud) {
    char name[NAME], ours[STEPS], theirs[STEPS];
    int compared = 0;
    for (const char *at = text; (at = next_function(at, "DEVICE ", name, theirs));) {
        if (!*theirs || strcmp(name, "release") == 0) /* which is a step */
            continue;
        const bool known = model_steps(name, ours);
        compared++;
        if (known && strcmp(ours, theirs) == 0)
            continue;
        (*complaints)++;
        if (loud)
            print_error("%s: the kernel has\n  %s\nthe model has\n  %s\n", name, theirs,
                        known ? ours : "no such function");
    }
    return compared;
}

static const char *text_of(int file) {
    const att_embedded_text *text = att_embedded_text_find(kernel_files[file]);
    if (!text)
        fail_msg("%s is not in the library", kernel_files[file]);
    return text->text;
}

static void test_steps__of_the_kernel__are_those_of_the_model(void **state) {
    (void)state;
    int compared = 0, complaints = 0;
    for (int i = 0; i < FILES; i++)
        compared += compare(text_of(i), &complaints, true);
    assert_int_equal(complaints, 0);
    assert_true(compared >= (int)COUNT(functions));
}

/* Nothing waits or arrives outside these functions, except the calls of the roles. */
static void test_steps__of_the_entry__are_the_roles(void **state) {
    (void)state;
    const char *entry = strstr(text_of(FILES - 1), "extern \"C\" __global__");
    assert_non_null(entry);
    const char *body = strstr(entry, "{\n");
    char steps[STEPS], *call;
    read_steps(steps, body, body + strlen(body));
    for (const char *const *name = (const char *const[]){"wait ", "sync ", NULL}; *name; name++)
        if ((call = strstr(steps, *name)) && (call == steps || call[-1] == ' '))
            fail_msg("the entry waits: %s", steps);
    assert_non_null(strstr(steps, "produce "));
    assert_non_null(strstr(steps, "send "));
    assert_non_null(strstr(steps, "consume redo_rows "));
}

/* Each change of the kernel must be noticed: `from` becomes `to` in a copy of its text. */
static void test_steps__a_changed_kernel__is_noticed(void **state) {
    (void)state;
    static const struct {
        int file;
        const char *from, *to;
    } changes[] = {
        {4, "        release_bias(c);\n        wait_o_place(c);",
         "        release_bias(c);\n        ;"},
        {4, "            release_k(c);\n            if (SHAPES", "            if (SHAPES"},
        {4, "release(c, V_EMPTY", "release(c, K_EMPTY"},
        {4, "    skip_k(c, v.behind);\n    wait_k(c);",
         "    wait_k(c);\n    skip_k(c, v.behind);"},
        {4, "DEVICE bool is_idle(",
         "DEVICE void again(const consumer *c) {\n    wait_v(c);\n}\nDEVICE bool is_idle("},
        {1, "Q_EMPTY + which", "Q_FULL + which"},
        {1, "load_k(&a, &a.keys, paged);", "load_v(&a, &due, paged);"},
        {1, "        leave(&a, n);\n", ""},
        {2, "O_EMPTY + group", "O_FULL + group"},
        {2, "mbarrier_arrive(barrier_of(shared, STORED));", ";"},
        {3, "BIAS_EMPTY + which", "BIAS_FULL + which"},
        {4, "            wait_bias(c);\n", ""},
    };
    static char copy[TEXT];
    for (size_t i = 0; i < COUNT(changes); i++) {
        const char *text = text_of(changes[i].file), *at = strstr(text, changes[i].from);
        if (!at)
            fail_msg("nothing to change at: %s", changes[i].from);
        snprintf(copy, sizeof copy, "%.*s%s%s", (int)(at - text), text, changes[i].to,
                 at + strlen(changes[i].from));
        int complaints = 0;
        compare(copy, &complaints, false);
        if (complaints == 0)
            fail_msg("not noticed: %s for %s", changes[i].to, changes[i].from);
    }
}

static int read_model(void **state) {
    (void)state;
    FILE *file = fopen(model_file, "r");
    if (!file)
        return -1;
    model[fread(model, 1, sizeof model - 1, file)] = '\0';
    return fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps__of_the_kernel__are_those_of_the_model),
        cmocka_unit_test(test_steps__of_the_entry__are_the_roles),
        cmocka_unit_test(test_steps__a_changed_kernel__is_noticed),
    };
    return cmocka_run_group_tests(tests, read_model, NULL);
}
