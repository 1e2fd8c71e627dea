/* test_moe_random.c: random mixtures of experts from the whole space of words, every engine
 * checked against the bar.
 *
 * ATTEST_PROPERTY_SEED and ATTEST_PROPERTY_COUNT choose the draw. A failing problem is printed
 * as a line that reproduces it. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/verify/verify.h"
#include "tests/support/check.h"
#include "tests/support/engines.h"
#include "tests/support/parsed.h"
#include "tests/support/rng.h"

enum { COUNT = 600, SEED = 1, ONE_LUCKY_IN = 100 };

static uint64_t from_environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---------------------------------------------------------------------- drawing */

typedef struct drawn_line {
    char text[512];
    uint64_t random;
} drawn_line;

__attribute__((format(printf, 2, 3))) static void add(drawn_line *l, const char *format, ...) {
    const size_t used = strlen(l->text);
    va_list list;
    va_start(list, format);
    vsnprintf(l->text + used, sizeof l->text - used, format, list);
    va_end(list);
}

static bool one_in(drawn_line *l, int64_t n) {
    return rng_below(&l->random, n) == 0;
}

static const char *pick(drawn_line *l, const char *const *words, int64_t count) {
    return words[rng_below(&l->random, count)];
}

#define PICK(l, ...)                                                                           \
    pick(l, (const char *const[]){__VA_ARGS__},                                                \
         (int64_t)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

/* Mostly small, and near the tile sizes of the kernels. */
static int64_t draw_size(drawn_line *l, int64_t most) {
    static const int64_t edges[] = {1, 8, 16, 32, 48, 64, 128};
    const int64_t near = edges[rng_below(&l->random, 7)] + rng_below(&l->random, 3) - 1;
    const int64_t size = one_in(l, 3) ? 1 + rng_below(&l->random, most) : near;
    return size < 1 ? 1 : size > most ? most : size;
}

static void draw_storage(drawn_line *l) {
    const char *act = PICK(l, "swiglu", "geglu", "geglu-tanh", "swiglu-clamped", "relu2",
                           "silu", "gelu", "gelu-tanh");
    const bool gated = strstr(act, "glu") != NULL;
    add(l, ",act=%s", act);
    if (gated)
        add(l, ",gate=%s", PICK(l, "concatenated", "apart", "interleaved"));
    if (one_in(l, 3))
        add(l, ",transposed");
    if (one_in(l, 3))
        add(l, ",b1");
    if (one_in(l, 3))
        add(l, ",b2");
    if (one_in(l, 5))
        add(l, ",bias=f32");
    if (one_in(l, 5))
        add(l, ",y=f32");
    if (one_in(l, 4))
        add(l, ",pad=%d", (int)(1 + rng_below(&l->random, 9)));
    if (one_in(l, 4))
        add(l, ",offset=%d", (int)(1 + rng_below(&l->random, 7)));
    if (one_in(l, 8))
        add(l, "%s", PICK(l, ",bcast", ",absurd"));
}

static void draw_routing(drawn_line *l, int64_t experts, int64_t k) {
    const char *route = PICK(l, "softmax", "topk", "sigmoid", "given");
    const bool sigmoid = strcmp(route, "sigmoid") == 0, given = strcmp(route, "given") == 0;
    add(l, ",route=%s", route);
    if (one_in(l, 3))
        add(l, ",nonorm");
    if (one_in(l, 4))
        add(l, ",scale=2.5");
    if (sigmoid && one_in(l, 2))
        add(l, ",correction");
    if (sigmoid && experts % 4 == 0 && experts >= 8 && one_in(l, 2)) {
        const int64_t least = (k + experts / 4 - 1) / (experts / 4);
        add(l, ",groups=4:%lld", (long long)(least + rng_below(&l->random, 5 - least)));
    }
    if (!given && one_in(l, 4))
        add(l, ",logits=%s",
            strstr(l->text, ",fp16")   ? "fp16"
            : strstr(l->text, ",bf16") ? "bf16"
                                       : "f32");
    if (one_in(l, 4))
        add(l, ",mask");
    if (one_in(l, 4)) {
        const int64_t first = rng_below(&l->random, experts);
        add(l, ",range=%lld:%lld", (long long)first,
            (long long)(1 + rng_below(&l->random, experts - first)));
    }
    if (one_in(l, 4))
        add(l, ",load=%s", PICK(l, "zipf", "one", "few"));
    if (one_in(l, 3))
        add(l, ",data=%s",
            given ? "holes"
                  : PICK(l, "equal", "ties", "inf", "nan", "large", "zero", "denormal"));
}

static void draw(drawn_line *l) {
    const int64_t experts = draw_size(l, 70);
    const int64_t k = 1 + rng_below(&l->random, experts < 9 ? experts : 9);
    l->text[0] = '\0';
    add(l, "moe:t%llde%lldk%lldh%lldi%lld,%s", (long long)(draw_size(l, 200) - one_in(l, 20)),
        (long long)experts, (long long)k, (long long)draw_size(l, 200),
        (long long)draw_size(l, 200), PICK(l, "bf16", "fp16", "f32"));
    draw_storage(l);
    draw_routing(l, experts, k);
    add(l, "%s%s%s", one_in(l, 2) ? ",ids" : "", one_in(l, 2) ? ",weights" : "",
        one_in(l, 2) ? ",counts" : "");
}

/* -------------------------------------------------------------------- verifying */

/* Above the bar, but not by much, as happens with a lucky reference. */
static bool is_nearly_right(const lab_verify_result *r) {
    bool near = r->outcome == LAB_FAIL && r->status == ATT_OK;
    for (int i = 0; i < r->outputs; i++)
        near = near && r->error[i].kernel <= 2.0 * r->error[i].bar;
    return near;
}

static void test_random__every_engine__within_the_bar(void **state) {
    const engines *e = *state;
    const uint64_t count = from_environment("ATTEST_PROPERTY_COUNT", COUNT);
    drawn_line l = {.random = from_environment("ATTEST_PROPERTY_SEED", SEED)};
    uint64_t lucky = 0, failed = 0;
    for (uint64_t n = 0; n < count && failed < 5; n++) {
        draw(&l);
        const lab_spec spec = parsed(l.text);
        for (int k = 0; k < e->count; k++) {
            const lab_verify_options options = {.seed = n, .rows_seed = &n};
            lab_verify_result r;
            lab_verify_spec(&r, e->ctx[k], &spec, &options);
            if (r.outcome == LAB_PASS)
                continue;
            if (is_nearly_right(&r)) {
                lucky++;
                continue;
            }
            fprintf(stderr, "attest verify %s --isa %s --seed %llu: %s\n", l.text,
                    isa_name(e->isa[k]), (unsigned long long)n, r.message);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
    assert_true(lucky * ONE_LUCKY_IN <= count * (uint64_t)e->count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random__every_engine__within_the_bar),
    };
    return cmocka_run_group_tests(tests, engines_setup, engines_teardown);
}
