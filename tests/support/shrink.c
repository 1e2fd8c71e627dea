/* shrink.c: greedy: take the first change that still fails, until none does. */
#include "tests/support/shrink.h"

#include <string.h>

enum { ASKED_MOST = 600 };

typedef struct search {
    candidate best;
    failing *fails;
    void *arg;
    int asked;
} search;

/* Keep `trial` if it is a problem and fails. */
static bool try(search *s, const candidate *trial) {
    lab_spec spec;
    if (s->asked >= ASKED_MOST || !candidate_build(trial, &spec))
        return false;
    s->asked++;
    if (!s->fails(&spec, s->arg))
        return false;
    s->best = *trial;
    return true;
}

static bool try_number(search *s, const char *name, int64_t value) {
    candidate trial = s->best;
    candidate_set(&trial, name, "%d", (int)value);
    return try(s, &trial);
}

/* Drop each setting in turn; all but `d` have a default that is smaller. */
static bool drop_settings(search *s) {
    bool better = false;
    for (int i = 0; i < s->best.count;) {
        candidate trial = s->best;
        candidate_drop(&trial, i);
        if (strcmp(s->best.list[i].name, "d") != 0 && try(s, &trial))
            better = true;
        else
            i++;
    }
    return better;
}

/* Set it to `least` at once, otherwise halve it, otherwise decrement it. */
static bool lower_number(search *s, const char *name, int64_t least) {
    const int64_t now = candidate_number(&s->best, name, least);
    return now > least && (try_number(s, name, least) || try_number(s, name, now / 2) ||
                           try_number(s, name, now - 1));
}

/* Heads come in groups, so that the two numbers change together. */
static bool lower_heads(search *s) {
    const int64_t kv = candidate_number(&s->best, "hkv", 1),
                  q = candidate_number(&s->best, "h", 1);
    if (kv > 1) {
        for (int64_t fewer = 1; fewer<kv; fewer += kv - 2> fewer ? kv - 2 : 1) {
            candidate trial = s->best;
            candidate_set(&trial, "hkv", "%d", (int)fewer);
            candidate_set(&trial, "h", "%d", (int)(q / kv * fewer));
            if (try(s, &trial))
                return true;
        }
    }
    return q > kv && (try_number(s, "h", kv) || try_number(s, "h", q / kv / 2 * kv) ||
                      try_number(s, "h", q - kv));
}

static bool lower_numbers(search *s) {
    static const struct {
        const char *name;
        int64_t least;
    } numbers[] = {{"b", 1},     {"s", 1},   {"sk", 1},     {"d", 1},       {"dv", 1},
                   {"paged", 1}, {"pad", 1}, {"offset", 1}, {"lenseed", 0}, {"biascol", 1}};
    bool better = lower_heads(s);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        while (lower_number(s, numbers[i].name, numbers[i].least))
            better = true;
    return better;
}

int shrink(candidate *c, failing *fails, void *arg) {
    search s = {.best = *c, .fails = fails, .arg = arg};
    bool better;
    do {
        better = drop_settings(&s);
        better = lower_numbers(&s) || better;
    } while (better && s.asked < ASKED_MOST);
    *c = s.best;
    return s.asked;
}
