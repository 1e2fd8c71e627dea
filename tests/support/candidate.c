/* candidate.c: settings in, specs out, and the draw over the whole problem space. */
#include "tests/support/candidate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/problem/lab_operation.h"
#include "tests/support/rng.h"

/* ----------------------------------------------------------------- settings */

static int find(const candidate *c, const char *name) {
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->list[i].name, name) == 0)
            return i;
    return -1;
}

void candidate_set(candidate *c, const char *name, const char *format, ...) {
    int at = find(c, name);
    if (at < 0) {
        if (c->count == SETTINGS_MAX)
            abort();
        at = c->count++;
    }
    setting *s = &c->list[at];
    snprintf(s->name, sizeof s->name, "%s", name);
    va_list list;
    va_start(list, format);
    vsnprintf(s->value, sizeof s->value, format, list);
    va_end(list);
}

void candidate_drop(candidate *c, int index) {
    for (int i = index; i + 1 < c->count; i++)
        c->list[i] = c->list[i + 1];
    c->count--;
}

int64_t candidate_number(const candidate *c, const char *name, int64_t otherwise) {
    const int at = find(c, name);
    return at < 0 ? otherwise : strtoll(c->list[at].value, NULL, 10);
}

/* A gradient requires its feature. */
static bool asks_for_what_there_is(const att_problem *p) {
    const bool bias = p->features & ATT_BIAS && p->bias_dtype != ATT_BOOL8;
    return (bias || !(p->gradients & ATT_D_BIAS)) &&
           (p->features & ATT_SINKS || !(p->gradients & ATT_D_SINKS)) &&
           (p->features & ATT_ALIBI || !(p->gradients & ATT_D_ALIBI));
}

bool candidate_build(const candidate *c, lab_spec *spec) {
    (c->backward ? &lab_operation_backward : &lab_operation_attention)->init(spec);
    for (int i = 0; i < c->count; i++) {
        const char *value = c->list[i].value[0] ? c->list[i].value : NULL;
        if (!lab_spec_set(spec, c->list[i].name, value, NULL))
            return false;
    }
    return asks_for_what_there_is(&spec->problem) && lab_spec_finish(spec, NULL);
}

/* --------------------------------------------------------------------- draw */

#define PICK(state, list) (list)[rng_below(state, (int64_t)(sizeof(list) / sizeof((list)[0])))]

static bool chance(uint64_t *state, int percent) {
    return rng_below(state, 100) < percent;
}

/* Near the tile and vector sizes of the kernels, primes, and the smallest sizes. */
static const int64_t ROWS[] = {0,  1,  1,  1,  2,  3,  4,  5,  7,  8,   15,  16,  17,
                               24, 31, 32, 33, 47, 63, 64, 65, 97, 113, 128, 129, 200};
static const int64_t KEYS[] = {0,  1,  2,   3,   7,   15,  16,  17,  31,  32,  33,  63,  64,
                               65, 97, 113, 127, 128, 129, 255, 256, 257, 300, 511, 600, 1025};
static const int64_t DIMS[] = {1,  2,  3,  8,  15, 16,  17,  24,  32,  40,  48, 63,
                               64, 65, 72, 80, 96, 112, 128, 160, 192, 255, 256};
static const char *const DTYPES[] = {"fp16", "bf16", "f32"};

/* Multiply-adds of one of the two products: for most problems, and for the few that are large
 * enough for several threads. */
enum { WORK_SMALL = 1500000, WORK_LARGE = 12000000 };

static void draw_shape(candidate *c, uint64_t *state) {
    static const int64_t batches[] = {1, 1, 1, 2, 2, 3, 4, 5, 0};
    static const int64_t groups[] = {1, 1, 2, 3, 4, 6, 8, 16};
    static const int64_t heads[] = {1, 1, 2, 3};
    static const int64_t caches[] = {600, 1025, 3001, 8192, 12345};
    const int64_t work_most = chance(state, 10) ? WORK_LARGE : WORK_SMALL;
    int64_t b, h_kv, group, s, sk, d, dv;
    do {
        b = PICK(state, batches);
        h_kv = PICK(state, heads);
        group = PICK(state, groups);
        s = PICK(state, ROWS);
        sk = chance(state, 40) ? s : PICK(state, KEYS);
        if (chance(state, 12)) { /* decode over a cache long enough to be split */
            s = 1;
            sk = PICK(state, caches);
        }
        d = PICK(state, DIMS);
        dv = chance(state, 60) ? d : PICK(state, DIMS);
    } while (b * h_kv * group * s * sk * (d > dv ? d : dv) > work_most);
    candidate_set(c, "b", "%d", (int)b);
    candidate_set(c, "h", "%d", (int)(h_kv * group));
    candidate_set(c, "hkv", "%d", (int)h_kv);
    candidate_set(c, "s", "%d", (int)s);
    candidate_set(c, "sk", "%d", (int)sk);
    candidate_set(c, "d", "%d", (int)d);
    candidate_set(c, "dv", "%d", (int)dv);
    candidate_set(c, "dtype", "%s", PICK(state, DTYPES));
    if (chance(state, 30))
        candidate_set(c, "o", "%s", PICK(state, DTYPES));
}

/* The sides of a window: no limit, nothing, little, past everything. */
static int draw_side(uint64_t *state) {
    static const int sides[] = {-1, -1, 0, 1, 5, 16, 40, 2000};
    return PICK(state, sides);
}

/* Positions of a shard: one for all batch entries, or one each. */
static void draw_offsets(candidate *c, uint64_t *state) {
    static const char *const names[][2] = {{"qoffset", "qoffsets"}, {"koffset", "koffsets"}};
    for (int side = 0; side < 2; side++) {
        if (chance(state, 60))
            candidate_set(c, names[side][0], "%d", (int)rng_below(state, 90));
        if (chance(state, 40))
            candidate_set(c, names[side][1], "%s", "");
    }
}

static void draw_mask(candidate *c, uint64_t *state) {
    static const char *const ways[] = {"top-left", "bottom-right"};
    const bool causal = chance(state, 45), window = chance(state, 30),
               alibi = chance(state, 20);
    if (causal || window || alibi) {
        const char *way = PICK(state, ways);
        uint64_t apart =
            *state ^ 0x9e3779b97f4a7c15u; /* the other draws are as without offsets */
        candidate_set(c, causal ? "causal" : "align", "%s", way);
        if (way == ways[0] && chance(&apart, 30))
            draw_offsets(c, &apart);
    }
    if (window) {
        const int left = draw_side(state);
        candidate_set(c, "window", "%d:%d", left, draw_side(state));
    }
    if (alibi)
        candidate_set(c, "alibi", "%s", chance(state, 50) ? "b" : "");
}

static void draw_bias(candidate *c, uint64_t *state) {
    static const char *const types[] = {"f32", "fp16", "bf16", "bool"};
    static const char *const fills[] = {"+inf",   "normal",    "hide",    "hide-rows",
                                        "clear",  "tenth",     "padding", "padded-causal",
                                        "prefix", "documents", "blocks"};
    const char *type = PICK(state, types);
    const bool boolean = strcmp(type, "bool") == 0;
    char shape[5] = "bhqk";
    for (int i = 0; i < 4; i++)
        if (chance(state, 30))
            shape[i] = '1';
    candidate_set(c, "bias", "%s:%s", type, shape);
    const char *fill = PICK(state, fills);
    if (boolean && strcmp(fill, "+inf") == 0) /* a mask has none */
        fill = "hide";
    candidate_set(c, "biasfill", "%s", fill);
    if (chance(state, 25))
        candidate_set(c, "biascol", "%d", 2 + (int)rng_below(state, 3));
}

static void draw_features(candidate *c, uint64_t *state) {
    static const char *const scales[] = {"0", "-0.5", "1", "0.01", "3"};
    static const char *const caps[] = {"0.5", "5", "30", "50"};
    if (chance(state, 20))
        candidate_set(c, "scale", "%s", PICK(state, scales));
    if (chance(state, 20))
        candidate_set(c, "softcap", "%s", PICK(state, caps));
    if (chance(state, 30))
        draw_bias(c, state);
    if (chance(state, 20))
        candidate_set(c, "sinks", "%s", "");
    if (chance(state, 75))
        candidate_set(c, "lse", "%s", "");
}

static void draw_lengths(candidate *c, uint64_t *state) {
    static const char *const kinds[] = {"varlen", "cuq", "cuk", "lensk"};
    static const int page_sizes[] = {1, 2, 3, 16, 17, 64, 256};
    if (chance(state, 35)) {
        candidate_set(c, PICK(state, kinds), "%s", "");
        candidate_set(c, "lenseed", "%d", (int)rng_below(state, 1000));
    }
    if (chance(state, 15)) {
        candidate_set(c, "startsk", "%s", "");
        candidate_set(c, "lenseed", "%d", (int)rng_below(state, 1000));
    }
    if (chance(state, 20))
        candidate_set(c, "paged", "%d", PICK(state, page_sizes));
}

static void draw_layout(candidate *c, uint64_t *state) {
    static const char *const layouts[] = {"bshd", "bhsd", "packed"};
    static const char *const broadcasts[] = {"b", "h", "bh"};
    const bool paged = find(c, "paged") >= 0;
    const bool self_attention = candidate_number(c, "s", 0) == candidate_number(c, "sk", 0) &&
                                find(c, "cuq") < 0 && find(c, "cuk") < 0 &&
                                find(c, "lensk") < 0;
    const int64_t kinds = self_attention && !paged ? 3 : 2;
    const char *layout = layouts[rng_below(state, kinds)];
    candidate_set(c, "layout", "%s", layout);
    if (chance(state, 25))
        candidate_set(c, "pad", "%d", 1 + (int)rng_below(state, 9));
    if (chance(state, 25))
        candidate_set(c, "offset", "%d", 1 + (int)rng_below(state, 15));
    if (chance(state, 10) && strcmp(layout, "packed") != 0)
        candidate_set(c, "bcast", "%s", paged ? "h" : PICK(state, broadcasts));
    if (chance(state, 15))
        candidate_set(c, "absurd", "%s", "");
}

static void draw_data(candidate *c, uint64_t *state) {
    static const char *const kinds[] = {"huge",        "onehot",      "equal", "denormal",
                                        "zero",        "ramp",        "shift", "nan-masked",
                                        "huge-masked", "nan-visible", "inf-v", "overflow"};
    if (chance(state, 45))
        candidate_set(c, "data", "%s", PICK(state, kinds));
}

void candidate_random(candidate *c, uint64_t *state) {
    c->count = 0;
    c->backward = false;
    draw_shape(c, state);
    draw_mask(c, state);
    draw_features(c, state);
    draw_lengths(c, state);
    draw_layout(c, state);
    draw_data(c, state);
}

static bool has(const candidate *c, const char *name) {
    return find(c, name) >= 0;
}

void candidate_random_backward(candidate *c, uint64_t *state) {
    static const char *const contents[] = {"tiny", "huge", "zero"};
    candidate_random(c, state);
    c->backward = true;
    if (has(c, "paged"))
        candidate_drop(c, find(c, "paged"));
    /* It is not specified which gradients of rows that see a NaN or an infinity are finite. */
    if (has(c, "data") && (strcmp(c->list[find(c, "data")].value, "inf-v") == 0 ||
                           strcmp(c->list[find(c, "data")].value, "nan-visible") == 0))
        candidate_set(c, "data", "%s", "nan-masked");
    if (has(c, "biasfill") && strcmp(c->list[find(c, "biasfill")].value, "+inf") == 0)
        candidate_set(c, "biasfill", "%s", "hide");
    const bool mask = has(c, "bias") && strncmp(c->list[find(c, "bias")].value, "bool", 4) == 0;
    if (has(c, "bias") && !mask && chance(state, 70))
        candidate_set(c, "dbias", "%s", "");
    if (has(c, "sinks") && chance(state, 70))
        candidate_set(c, "dsinks", "%s", "");
    if (has(c, "alibi") && chance(state, 70))
        candidate_set(c, "dalibi", "%s", "");
    if (chance(state, 30))
        candidate_set(c, "grad", "%s", "f32");
    if (chance(state, 15))
        candidate_set(c, "do", "%s", PICK(state, contents));
}
