/* test_verify.c: the verifier itself: right answers pass, and each kind of wrong one is
 * caught. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "lab/attention/attention_lab.h"
#include "lab/base/random.h"
#include "lab/tensors/tensors_turn.h"
#include "lab/tensors/verify_rows.h"
#include "lab/verify/verify.h"
#include "attention/ref/oracle.h"
#include "attention/ref/plain.h"
#include "tests/support/check.h"
#include "tests/support/engines.h"
#include "tests/support/parsed.h"

static lab_tensors *made(const char *text, uint64_t seed) {
    const lab_spec spec = parsed(text);
    lab_tensors *t;
    lab_message why;
    if (!lab_tensors_create(&t, &spec, seed, &why))
        fail_msg("%s: %s", text, why.text);
    return t;
}

/* Leave the answers of the plain reference in the outputs, as an honest kernel would. */
static void answer(lab_tensors *t) {
    const att_problem *p = &t->spec.problem;
    float *logits = malloc((size_t)(p->seq_k + 1) * sizeof *logits);
    float o[256], lse;
    assert_non_null(logits);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < att_ref_len_q(p, &t->args, b); i++) {
                att_plain_row(p, &t->args, b, h, i, ATT_PLAIN_FORWARD, logits, o, &lse);
                const int64_t at = att_ref_index_o(p, &t->args, b, h, i);
                for (int64_t c = 0; c < p->d_v; c++)
                    att_store(t->args.o, p->dtype_o, at + c, o[c]);
                if (p->features & ATT_LSE)
                    t->args.lse[att_ref_index_lse(p, &t->args, b, h, i)] = lse;
            }
    free(logits);
}

static lab_verify_result judged(const lab_tensors *t, int64_t max_work) {
    lab_verify_result r = {.outcome = LAB_PASS};
    const lab_verify_options options = {.seed = 3, .max_work = max_work};
    lab_verify_outputs(&r, t, &options);
    return r;
}

static void assert_caught(const lab_tensors *t, const char *word) {
    const lab_verify_result r = judged(t, 0);
    assert_int_equal(r.outcome, LAB_FAIL);
    if (!strstr(r.message, word))
        fail_msg("'%s' does not hold '%s'", r.message, word);
}

static const char *const varied[] = {
    "b2h4hkv2s33d24,f32,causal,lse",
    "b2h4hkv2s33sk50d24dv40,bf16,alibi,align=bottom-right,softcap=3,sinks,lse",
    "b3h2s40d16,fp16,varlen,causal,pad=3,lse",
    "b3h2s9sk40d16,f32,lensk,paged=8,bias=bool,biasfill=hide-rows,lse",
    "b2h2s20sk0d16,bf16,lse",
    "b2h2s30d16,fp16,causal,data=nan-visible,lse",
    "b2h2s30d16,f32,window=3:3,data=inf-v,lse",
    "b2h2s30d16,bf16,data=huge,lse",
    "b1h2s30d16,f32,bias=f32,biasfill=+inf,lse",
};

static void test_outputs__honest_answers__pass(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof varied / sizeof varied[0]; n++) {
        lab_tensors *t = made(varied[n], n);
        answer(t);
        const lab_verify_result r = judged(t, 0);
        if (r.outcome != LAB_PASS)
            fail_msg("%s: %s", varied[n], r.message);
        assert_int_equal(r.rows_checked, r.rows_total);
        lab_message why;
        assert_true(lab_tensors_check(t, &why));
        lab_tensors_destroy(t);
    }
}

static void test_outputs__nothing_written__caught(void **state) {
    (void)state;
    for (size_t n = 0; n < 4; n++) {
        lab_tensors *t = made(varied[n], n);
        assert_caught(t, "is ");
        lab_tensors_destroy(t);
    }
}

static void test_outputs__one_value_off__caught_and_named(void **state) {
    (void)state;
    for (size_t n = 0; n < 3; n++) {
        lab_tensors *t = made(varied[n], n);
        const att_problem *p = &t->spec.problem;
        answer(t);
        const int64_t at = att_ref_index_o(p, &t->args, 0, 1, 7) + 5;
        const float right = att_load(t->args.o, p->dtype_o, at);
        att_store(t->args.o, p->dtype_o, at, right + 0.2f);
        assert_caught(t, "o[b=0 h=1 row=7 col=5]");
        att_store(t->args.o, p->dtype_o, at, NAN);
        assert_caught(t, "o[b=0 h=1 row=7 col=5] is nan");
        att_store(t->args.o, p->dtype_o, at, INFINITY);
        assert_caught(t, "o[b=0 h=1 row=7 col=5] is inf");
        att_store(t->args.o, p->dtype_o, at, right);
        assert_int_equal(judged(t, 0).outcome, LAB_PASS);
        lab_tensors_destroy(t);
    }
}

static void test_outputs__lse_off__caught_and_named(void **state) {
    (void)state;
    lab_tensors *t = made(varied[0], 1);
    answer(t);
    float *lse = &t->args.lse[att_ref_index_lse(&t->spec.problem, &t->args, 1, 3, 20)];
    *lse += 1e-5f;
    assert_caught(t, "lse[b=1 h=3 row=20");
    *lse = -INFINITY;
    assert_caught(t, "lse[b=1 h=3 row=20 col=0] is -inf");
    lab_tensors_destroy(t);
}

static void test_outputs__hidden_row__wants_minus_infinity_itself(void **state) {
    (void)state;
    lab_tensors *t = made("b1h1s4sk0d8,f32,lse", 1);
    answer(t);
    assert_int_equal(judged(t, 0).outcome, LAB_PASS);
    t->args.lse[2] = NAN;
    assert_caught(t, "lse[b=0 h=0 row=2");
    t->args.lse[2] = -1e30f;
    assert_caught(t, "lse[b=0 h=0 row=2");
    lab_tensors_destroy(t);
}

static void test_outputs__nan_swallowed__caught(void **state) {
    (void)state;
    lab_tensors *t = made("b1h1s9d8,f32,data=nan-visible", 1);
    answer(t);
    assert_int_equal(judged(t, 0).outcome, LAB_PASS);
    att_store(t->args.o, ATT_F32, att_ref_index_o(&t->spec.problem, &t->args, 0, 0, 8), 0.5f);
    assert_caught(t, "row=8 col=0] is 0.5, the oracle has");
    lab_tensors_destroy(t);
}

/* Low intermediate precision: O in float32, but computed as if in bfloat16. */
static void test_outputs__precision_lost__caught(void **state) {
    (void)state;
    lab_tensors *t = made("b1h2s64d32,f32", 1);
    answer(t);
    float *o = t->args.o;
    for (int64_t n = 0; n < 2 * 64 * 32; n++)
        o[n] = att_bf16_to_f32(att_f32_to_bf16(o[n]));
    assert_caught(t, "above the bar");
    lab_tensors_destroy(t);
}

/* Every value off by 2 ulp, with either sign: below the bar for the largest, above that for the
 * average. */
static void test_outputs__less_precise_on_average__caught(void **state) {
    (void)state;
    lab_tensors *t = made("b1h2s64d16,fp16", 3);
    answer(t);
    uint16_t *o = t->args.o;
    for (int i = 0; i < 64 * 2 * 16; i++)
        o[i] = (uint16_t)(o[i] + (i % 2 ? 2 : -2));
    assert_caught(t, "root mean square");
    lab_tensors_destroy(t);
}

/* A NaN outside the sample of rows. */
static void test_outputs__sampled__sees_nan_in_any_row(void **state) {
    (void)state;
    lab_tensors *t = made("b1h1s700sk256d8,f32", 3);
    answer(t);
    ((float *)t->args.o)[333 * 8 + 5] = NAN;
    lab_verify_result r = {.outcome = LAB_PASS};
    const lab_verify_options options = {.max_work = 20000};
    lab_verify_outputs(&r, t, &options);
    assert_true(r.rows_checked < r.rows_total);
    assert_int_equal(r.outcome, LAB_FAIL);
    assert_non_null(strstr(r.message, "row=333 col=5"));
    lab_tensors_destroy(t);
}

static void test_outputs__sampled__checks_ends_and_sees_unwritten_rows(void **state) {
    (void)state;
    lab_tensors *t = made("b2h3s300d16,f32", 1);
    answer(t);
    lab_verify_result r = judged(t, 100000);
    assert_int_equal(r.outcome, LAB_PASS);
    assert_true(r.rows_checked < r.rows_total && r.rows_checked >= 32);
    assert_int_equal(r.rows_total, 2 * 3 * 300);
    const att_problem *p = &t->spec.problem;
    float *last = (float *)t->args.o + att_ref_index_o(p, &t->args, 1, 2, 299);
    const float right = *last;
    *last += 1.0f;
    r = judged(t, 100000);
    assert_non_null(strstr(r.message, "o[b=1 h=2 row=299 col=0]"));
    *last = right;
    for (int64_t i = 0; i < 300; i++) { /* wherever the sample lies, no row may stay poisoned */
        float row[16], *at = (float *)t->args.o + att_ref_index_o(p, &t->args, 1, 1, i);
        memcpy(row, at, sizeof row);
        memset(at, LAB_POISON, sizeof row);
        assert_int_equal(judged(t, 100000).outcome, LAB_FAIL);
        memcpy(at, row, sizeof row);
    }
    lab_tensors_destroy(t);
}

/* ---------------------------------------------------------------- rows that are drawn */

/* A subject that knows the seed that selects the rows, and computes no others. */
static uint64_t foreseen_seed;
enum { SAMPLED_WORK = 100000 };

static att_status foresee_prepare(const lab_subject *subject, const lab_spec *spec,
                                  void **state, lab_message *why) {
    (void)subject, (void)why;
    lab_tensors *known = calloc(1, sizeof *known);
    assert_non_null(known);
    known->spec = *spec;
    *state = known;
    return ATT_OK;
}

static size_t foresee_workspace(const void *state) {
    (void)state;
    return 0;
}

static const char *foresee_kernel(const void *state) {
    (void)state;
    return NULL;
}

static att_status foresee_run(void *state, const lab_operation *operation, const lab_args *all,
                              void *workspace, void *stream, lab_message *why) {
    const att_args *args = &all->attention;
    (void)operation, (void)workspace, (void)stream, (void)why;
    lab_tensors *known = state;
    const att_problem *p = &known->spec.problem;
    double *logits = malloc((size_t)p->seq_k * sizeof *logits), o[64], lse;
    lab_rows rows;
    known->args = *args;
    memset(args->o, 0, (size_t)(p->batch * p->o.batch) * sizeof(float));
    assert_true(logits && lab_rows_choose(&rows, known, foreseen_seed, SAMPLED_WORK));
    for (int64_t n = 0; n < rows.count; n++) {
        const lab_row *r = &rows.list[n];
        att_ref_row(p, args, r->b, r->h, r->i, logits, o, &lse);
        for (int64_t c = 0; c < p->d_v; c++)
            ((float *)args->o)[att_ref_index_o(p, args, r->b, r->h, r->i) + c] = (float)o[c];
    }
    lab_rows_free(&rows);
    free(logits);
    return ATT_OK;
}

static void test_verify__rows_that_are_foreseen__caught(void **state) {
    (void)state;
    static const char line[] = "b2h3s300d16,f32";
    static const lab_subject_ops ops = {.prepare = foresee_prepare,
                                        .workspace = foresee_workspace,
                                        .kernel = foresee_kernel,
                                        .run = foresee_run,
                                        .destroy = free};
    const att_context_options options = {.size = sizeof options, .device = ATT_DEVICE_CPU};
    lab_spec spec;
    lab_verify_result r;
    lab_subject subject = {
        .ops = &ops, .name = "seer", .version = "1", .self = (void *)(uintptr_t)line};
    assert_true(lab_spec_parse(&spec, line, NULL));
    assert_int_equal(att_context_create(&subject.ctx, &options), ATT_OK);
    foreseen_seed = 5;
    /* Rows that anybody can know are no check at all ... */
    const lab_verify_options known = {
        .seed = 5, .rows_seed = &foreseen_seed, .max_work = SAMPLED_WORK};
    lab_verify_subject(&r, &subject, &spec, &known);
    assert_int_equal(r.outcome, LAB_PASS);
    assert_int_equal(r.rows_seed, 5);
    /* ... and unpredictable ones are, and can be reproduced. */
    const lab_verify_options secret = {.seed = 5, .max_work = SAMPLED_WORK};
    lab_verify_subject(&r, &subject, &spec, &secret);
    assert_int_equal(r.outcome, LAB_FAIL);
    const uint64_t drawn = r.rows_seed;
    char message[sizeof r.message];
    memcpy(message, r.message, sizeof message);
    const lab_verify_options again = {.seed = 5, .rows_seed = &drawn, .max_work = SAMPLED_WORK};
    lab_verify_subject(&r, &subject, &spec, &again);
    assert_string_equal(r.message, message);
    att_context_destroy(subject.ctx);
}

/* --------------------------------------------------------------------- tensors */

static void assert_check_says(const lab_tensors *t, const char *word) {
    lab_message why;
    assert_false(lab_tensors_check(t, &why));
    if (!strstr(why.text, word))
        fail_msg("'%s' does not hold '%s'", why.text, word);
}

/* After turning, no earlier answer is right in the listed rows; after turning twice, nothing
 * has changed. */
static void test_turn__twice__is_nothing_and_once_is_wrong(void **state) {
    (void)state;
    static const char *const lines[] = {"b2h6hkv3s17sk23d16,f32",
                                        "b1h4hkv2s9sk30d8,bf16,varlen,lse",
                                        "b3h2s12d16,fp16,causal=top-left"};
    for (size_t n = 0; n < sizeof lines / sizeof lines[0]; n++) {
        lab_tensors *t = made(lines[n], 3);
        lab_row rows[LAB_TURNED];
        lab_message why;
        answer(t);
        for (uint64_t seed = 1; seed <= 5; seed++) {
            lab_tensors_turn(t, seed);
            assert_check_says(t, "an input was changed");
            const size_t count = lab_tensors_turned_rows(t, seed, rows);
            assert_true(count > 0);
            const lab_verify_options options = {.rows = rows, .row_count = count};
            lab_verify_result r = {.outcome = LAB_PASS};
            lab_verify_outputs(&r, t, &options);
            assert_int_equal(r.outcome, LAB_FAIL);
            lab_tensors_turn(t, seed);
            assert_true(lab_tensors_check(t, &why));
        }
        assert_int_equal(judged(t, 0).outcome, LAB_PASS);
        lab_tensors_mark(t, 1);
        assert_int_equal(judged(t, 0).outcome, LAB_FAIL);
        lab_tensors_destroy(t);
    }
}

static void count_drawn(lab_tensors *t, lab_row row, void *count) {
    (void)t, (void)row;
    ++*(int *)count;
}

static int drawn_by(const char *line, uint64_t seed, uint64_t *hash) {
    lab_tensors *t = made(line, 3);
    int count = 0;
    t->spec.operation->drawn(t, seed, count_drawn, &count);
    lab_tensors_turn(t, seed);
    *hash =
        lab_hash(1, t->buffer[2].data, 4 * (size_t)t->size[2].elements); /* the first part */
    lab_tensors_destroy(t);
    return count;
}

/* Turning must leave nearly all of a merge alone, and differ from seed to seed, even where
 * every row is a head. */
static void test_turn__merge_of_short_heads__few_rows(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int least, most;
    } cases[] = {{"merge:n2b1h1s1d8,f32", 1, 1},  {"merge:n3b4h8s1d8,f32", 1, 1},
                 {"merge:n2b32h8s1d8,f32", 4, 4}, {"merge:n2b10h10s1d8,f32", 1, 2},
                 {"merge:n2b2h3s63d8,f32", 3, 3}, {"merge:n2b2h3s64d8,f32", 6, 6},
                 {"merge:n2b2h3s100d8,f32", 6, 6}};
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        uint64_t hash[8];
        int different = 0;
        for (uint64_t seed = 0; seed < 8; seed++) {
            const int count = drawn_by(cases[n].line, seed, &hash[seed]);
            assert_in_range(count, cases[n].least, cases[n].most);
            different += hash[seed] != hash[0];
        }
        assert_true(n == 0 || different > 0);
    }
}

static void test_tensors__input_changed__caught(void **state) {
    (void)state;
    lab_tensors *t = made("b2h2s5d8,bf16,bias=f32,alibi,sinks,varlen,lse", 1);
    static const lab_tensor inputs[] = {LAB_Q,    LAB_K,     LAB_V,    LAB_ALIBI,
                                        LAB_BIAS, LAB_SINKS, LAB_CU_Q, LAB_CU_K};
    lab_message why;
    for (size_t n = 0; n < sizeof inputs / sizeof inputs[0]; n++) {
        lab_buffer *b = &t->buffer[inputs[n]];
        assert_true(lab_tensors_check(t, &why));
        b->data[b->bytes - 1] ^= 1;
        assert_check_says(t, "an input was changed");
        b->data[b->bytes - 1] ^= 1;
    }
    lab_tensors_destroy(t);
}

/* The guards are unreadable under the address sanitizer, which then catches what this test
 * does. */
#if defined(__SANITIZE_ADDRESS__)
#define GUARDS_ARE_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARDS_ARE_WATCHED 1
#endif
#endif

static void test_tensors__written_beside__caught(void **state) {
    (void)state;
#ifdef GUARDS_ARE_WATCHED
    skip();
#else
    lab_tensors *t = made("b1h2s5d8,bf16,offset=1,lse", 1);
    lab_message why;
    for (int tensor = LAB_Q; tensor <= LAB_LSE; tensor++) {
        lab_buffer *b = &t->buffer[tensor];
        assert_true(lab_tensors_check(t, &why));
        b->data[-1] ^= 1;
        assert_check_says(t, "memory beside it was written");
        b->data[-1] ^= 1;
        b->data[b->bytes] ^= 1;
        assert_check_says(t, "memory beside it was written");
        b->data[b->bytes] ^= 1;
    }
    lab_tensors_destroy(t);

    lab_buffer workspace;
    assert_true(lab_workspace_create(&workspace, 100, &why));
    assert_int_equal((uintptr_t)workspace.data % ATT_WORKSPACE_ALIGN, 0);
    assert_true(lab_workspace_check(&workspace, &why));
    workspace.data[100] = 0;
    assert_false(lab_workspace_check(&workspace, &why));
    lab_workspace_destroy(&workspace);
#endif
}

static void test_tensors__padding_of_output_written__caught(void **state) {
    (void)state;
    lab_tensors *t = made("b1h2s5d8,f32,pad=2,lse", 1);
    lab_message why;
    answer(t);
    assert_true(lab_tensors_check(t, &why));
    ((float *)t->args.o)[8] = 0.0f; /* just past the first row */
    assert_check_says(t, "o: padding was written, 32 bytes");
    lab_tensors_destroy(t);
}

static void test_tensors__seed__fixes_every_bit(void **state) {
    (void)state;
    const char *text = "b3h4hkv2s9sk30d8,fp16,lensk,paged=4,bias=bf16,alibi,sinks";
    lab_tensors *a = made(text, 5), *b = made(text, 5), *c = made(text, 6);
    for (int n = 0; n < LAB_TENSOR_COUNT; n++)
        assert_int_equal(a->buffer[n].hash, b->buffer[n].hash);
    assert_int_not_equal(a->buffer[LAB_Q].hash, c->buffer[LAB_Q].hash);
    assert_int_not_equal(a->buffer[LAB_PAGE_TABLE].hash, c->buffer[LAB_PAGE_TABLE].hash);
    lab_tensors_destroy(a);
    lab_tensors_destroy(b);
    lab_tensors_destroy(c);
}

static void test_tensors__pages__first_shared_others_apart_one_unused(void **state) {
    (void)state;
    lab_tensors *t = made("b3h1s1sk30d8,f32,paged=4,pad=1", 5);
    const att_problem *p = &t->spec.problem;
    int uses[64] = {0};
    for (int b = 0; b < 3; b++) {
        const int32_t *table = t->args.page_table + b * p->page_table_stride;
        for (int n = 0; n < 8; n++) {
            assert_in_range(table[n], 0, p->num_pages - 1);
            uses[table[n]]++;
        }
        assert_int_equal(table[0], t->args.page_table[0]);
        assert_int_equal(table[8], -1); /* past the table: must not be read */
    }
    int shared = 0, unused = 0;
    for (int n = 0; n < p->num_pages; n++) {
        shared += uses[n] == 3;
        unused += uses[n] == 0;
        assert_true(uses[n] == 0 || uses[n] == 1 || uses[n] == 3);
    }
    assert_int_equal(shared, 1);
    assert_int_equal(unused, 1);
    lab_tensors_destroy(t);
}

static void test_tensors__nan_masked__poison_in_hidden_keys_only(void **state) {
    (void)state;
    lab_tensors *t = made("b1h1s4sk9d2,f32,causal=top-left,data=nan-masked,lse", 5);
    const float *k = t->args.k, *v = t->args.v;
    for (int j = 0; j < 9; j++) {
        assert_int_equal(isfinite(k[2 * j]), j < 4);
        assert_int_equal(isfinite(v[2 * j]), j < 4);
    }
    answer(t);
    assert_int_equal(judged(t, 0).outcome, LAB_PASS);
    for (int64_t n = 0; n < 8; n++)
        assert_true(isfinite(((const float *)t->args.o)[n]));
    lab_tensors_destroy(t);
}

static void test_tensors__huge_masked__hidden_keys_are_far_larger(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16", "fp16"};
    for (int n = 0; n < 3; n++) {
        char line[64];
        snprintf(line, sizeof line, "b1h1s4sk9d16,%s,causal=top-left,data=huge-masked,lse",
                 types[n]);
        lab_tensors *t = made(line, 5);
        const att_dtype dtype = t->spec.problem.dtype;
        for (int j = 0; j < 9; j++) {
            float k = 0.0f, v = 0.0f;
            for (int c = 0; c < 16; c++) {
                k = fmaxf(k, fabsf(att_load(t->args.k, dtype, 16 * j + c)));
                v = fmaxf(v, fabsf(att_load(t->args.v, dtype, 16 * j + c)));
            }
            assert_true(isfinite(k) && isfinite(v));
            assert_int_equal(k > 100.0f, j >= 4);
            assert_int_equal(v > 100.0f, j >= 4);
        }
        answer(t);
        assert_int_equal(judged(t, 0).outcome, LAB_PASS);
        lab_tensors_destroy(t);
    }
}

static void test_tensors__boolean_and_additive_bias__hide_the_same_keys(void **state) {
    (void)state;
    lab_tensors *a = made("b2h2s9d8,f32,bias=bool,biasfill=hide-rows", 5);
    lab_tensors *b = made("b2h2s9d8,f32,bias=f32,biasfill=hide-rows", 5);
    int hidden = 0;
    for (int n = 0; n < 2 * 2 * 9 * 9; n++) {
        const bool hides = ((const uint8_t *)a->args.bias)[n] == 0;
        assert_int_equal(hides, ((const float *)b->args.bias)[n] == -INFINITY);
        hidden += hides;
    }
    assert_in_range(hidden, 100, 250);
    lab_tensors_destroy(a);
    lab_tensors_destroy(b);
}

static void test_tensors__wide_strides__few_pages_touched(void **state) {
    (void)state;
    /* 128 rows 2^25 elements apart, 8 GiB per tensor, on a machine of any size */
    lab_tensors *t = made("b1h1s128d4,bf16,pad=33554432", 1);
    answer(t);
    assert_int_equal(judged(t, 0).outcome, LAB_PASS);
    lab_tensors_destroy(t);
}

static void test_tensors__too_large__refused(void **state) {
    (void)state;
    const lab_spec spec = parsed("b1000h1000s1000d256,f32");
    lab_tensors *t;
    lab_message why;
    assert_false(lab_tensors_create(&t, &spec, 1, &why));
    assert_null(t);
    assert_non_null(strstr(why.text, "GiB"));
}

static void test_random__normal__mean_0_variance_1(void **state) {
    (void)state;
    lab_random random;
    lab_random_seed(&random, 1, 2);
    double sum = 0.0, squares = 0.0;
    const int n = 200000;
    for (int i = 0; i < n; i++) {
        const double x = (double)lab_random_normal(&random);
        sum += x;
        squares += x * x;
    }
    assert_near(sum / n, 0.0, 0.01); /* over 4 standard errors */
    assert_near(squares / n, 1.0, 0.015);
}

/* ------------------------------------------------------------------ whole protocol */

static void test_spec__on_the_engine__passes_and_names_the_kernel(void **state) {
    (void)state;
    att_context *ctx = context_open(ATT_ISA_AUTO, 0);
    const lab_spec spec = parsed("b2h4hkv2s70d64,bf16,causal,lse");
    lab_verify_result r;
    lab_verify_spec(&r, ctx, &spec, NULL);
    if (r.outcome != LAB_PASS)
        fail_msg("%s", r.message);
    assert_non_null(strstr(r.kernel, "cpu"));
    assert_int_equal(r.rows_checked, 2 * 4 * 70);
    assert_int_equal(r.outputs, 2);
    assert_string_equal(r.error[0].name, "o");
    assert_string_equal(r.error[1].name, "lse");
    assert_true(r.error[0].plain > 0.0 && r.error[0].kernel <= r.error[0].bar &&
                r.error[1].kernel <= r.error[1].bar);
    assert_true(r.run_seconds > 0.0);
    att_context_destroy(ctx);
}

static void test_spec__not_served__refused_with_the_library_s_words(void **state) {
    (void)state;
    att_context *ctx = context_open(ATT_ISA_AUTO, 0);
    const lab_spec spec = parsed("b1h1s8d257");
    lab_verify_result r;
    lab_verify_spec(&r, ctx, &spec, NULL);
    assert_int_equal(r.outcome, LAB_REFUSED);
    assert_int_equal(r.status, ATT_E_UNSUPPORTED);
    assert_non_null(strstr(r.message, "257"));
    att_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs__honest_answers__pass),
        cmocka_unit_test(test_outputs__nothing_written__caught),
        cmocka_unit_test(test_outputs__one_value_off__caught_and_named),
        cmocka_unit_test(test_outputs__lse_off__caught_and_named),
        cmocka_unit_test(test_outputs__hidden_row__wants_minus_infinity_itself),
        cmocka_unit_test(test_outputs__nan_swallowed__caught),
        cmocka_unit_test(test_outputs__precision_lost__caught),
        cmocka_unit_test(test_outputs__less_precise_on_average__caught),
        cmocka_unit_test(test_outputs__sampled__sees_nan_in_any_row),
        cmocka_unit_test(test_verify__rows_that_are_foreseen__caught),
        cmocka_unit_test(test_outputs__sampled__checks_ends_and_sees_unwritten_rows),
        cmocka_unit_test(test_turn__twice__is_nothing_and_once_is_wrong),
        cmocka_unit_test(test_turn__merge_of_short_heads__few_rows),
        cmocka_unit_test(test_tensors__input_changed__caught),
        cmocka_unit_test(test_tensors__written_beside__caught),
        cmocka_unit_test(test_tensors__padding_of_output_written__caught),
        cmocka_unit_test(test_tensors__seed__fixes_every_bit),
        cmocka_unit_test(test_tensors__pages__first_shared_others_apart_one_unused),
        cmocka_unit_test(test_tensors__nan_masked__poison_in_hidden_keys_only),
        cmocka_unit_test(test_tensors__huge_masked__hidden_keys_are_far_larger),
        cmocka_unit_test(test_tensors__boolean_and_additive_bias__hide_the_same_keys),
        cmocka_unit_test(test_tensors__wide_strides__few_pages_touched),
        cmocka_unit_test(test_tensors__too_large__refused),
        cmocka_unit_test(test_random__normal__mean_0_variance_1),
        cmocka_unit_test(test_spec__on_the_engine__passes_and_names_the_kernel),
        cmocka_unit_test(test_spec__not_served__refused_with_the_library_s_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
