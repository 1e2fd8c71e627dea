/* test_workers.c: parallel work gives the same bits as one thread: contents, references,
 * verdicts. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "attention/ref/oracle.h"
#include "base/dtype.h"
#include "lab/base/random.h"
#include "lab/base/workers.h"
#include "lab/tensors/output_rows.h"
#include "lab/tensors/row_strips.h"
#include "lab/verify/reference_store.h"
#include "lab/verify/verify.h"
#include "tests/support/check.h"
#include "tests/support/instrumented.h"
#include "tests/support/parsed.h"

static const int crowds[] = {3, 2, 7};

/* How many of them are used: instrumented code takes twenty times as long. */
static int crowds_used(void) {
    return is_instrumented() ? 1 : (int)(sizeof crowds / sizeof crowds[0]);
}

static lab_tensors *made(const char *text, uint64_t seed) {
    const lab_spec spec = parsed(text);
    lab_tensors *t;
    lab_message why;
    if (!lab_tensors_create(&t, &spec, seed, &why))
        fail_msg("%s: %s", text, why.text);
    return t;
}

/* ---------------------------------------------------------------------------- threads */

typedef struct counts {
    atomic_int of[1000];
    atomic_int inner;
} counts;

static void count_inner(void *context, int64_t i) {
    counts *c = context;
    (void)i;
    atomic_fetch_add(&c->inner, 1);
}

static void count_one(void *context, int64_t i) {
    counts *c = context;
    atomic_fetch_add(&c->of[i], 1);
    if (i % 100 == 0)
        lab_workers_run(10, count_inner, c); /* the threads are busy: done by this one */
}

static void test_workers__any_number__every_piece_once(void **state) {
    (void)state;
    for (int n = 0; n < crowds_used(); n++) {
        counts *c = calloc(1, sizeof *c);
        assert_non_null(c);
        lab_workers_limit(crowds[n]);
        assert_int_equal(lab_workers_count(), crowds[n]);
        lab_workers_run(1000, count_one, c);
        for (int i = 0; i < 1000; i++)
            assert_int_equal(atomic_load(&c->of[i]), 1);
        assert_int_equal(atomic_load(&c->inner), 100);
        free(c);
    }
    lab_workers_limit(0);
    assert_true(lab_workers_count() >= 1);
}

/* ----------------------------------------------------------------------------- random */

static void test_random__jump__as_if_drawn(void **state) {
    static const uint64_t jumps[] = {0, 1, 2, 63, 64, 255, 1000, 65537, 3000001};
    (void)state;
    lab_random walker, jumper;
    lab_random_seed(&walker, 7, 3);
    jumper = walker;
    for (size_t i = 0; i < sizeof jumps / sizeof jumps[0]; i++) {
        for (uint64_t n = 0; n < jumps[i]; n++)
            lab_random_bits(&walker);
        lab_random_jump(&jumper, jumps[i]);
        assert_memory_equal(&walker, &jumper, sizeof walker);
    }
    /* Far beyond what can be stepped through: one jump equals many. */
    walker = jumper;
    lab_random_jump(&jumper, UINT64_C(5) << 44);
    for (int i = 0; i < 5 * 16; i++)
        lab_random_jump(&walker, UINT64_C(1) << 40);
    assert_memory_equal(&walker, &jumper, sizeof walker);
}

static void test_random__normals__those_of_single_draws(void **state) {
    (void)state;
    lab_random one, many;
    float list[100];
    lab_random_seed(&one, 1, 2);
    many = one;
    lab_random_normals(&many, list, 100);
    for (int i = 0; i < 100; i++)
        assert_true(list[i] == lab_random_normal(&one));
    assert_memory_equal(&one, &many, sizeof one);
}

/* --------------------------------------------------------------------------- contents */

static const char *const varied[] = {
    "b2h4hkv2s333sk290d24dv40,bf16,lse",
    "b3h4hkv2s200d64,fp16,varlen,causal,pad=3,lse",
    "b3h2s9sk400d16,f32,lensk,paged=8,bias=bool,biasfill=hide-rows,lse",
    "b4h2s9sk700d16,bf16,paged=64,lse",
    "b3h4hkv2s130d32,bf16,bcast=b,lse",
    "b3h4hkv2s130d32,bf16,bcast=h,lse",
    "b2h3s150sk170d16,f32,bias=f32:b1qk,lse",
    "b2h2s150d16,fp16,bias=bool,biasfill=tenth,sinks,alibi,lse",
    "b2h2s130d16,fp16,causal=bottom-right,data=nan-masked,bias=f32,lse",
    "b2h2s130d16,bf16,window=9:0,data=huge-masked,lse",
    "b1h2s3sk9000d16,bf16,data=sparse,lse",
    "b1h2s200sk300d64,f32,data=onehot,lse",
    "b2h2s90d64,fp16,layout=packed,lse",
    "b2h2s130sk0d16,bf16,lse",
    "b300h2s1sk3d8,f32,lse",
    "merge:n3b2h3s133d65,fp16,layout=bhsd,pad=3,offset=1",
    "merge:n4b1h5s111d40,f32,data=empty",
    "backward:b2h4hkv2s33sk40d24,bf16,causal=bottom-right,bias=bf16,dbias,sinks,dsinks",
    "backward:b3h2s40d16,f32,varlen,alibi,dalibi,softcap=5",
};
enum { VARIED = sizeof varied / sizeof varied[0] };

static void assert_same_contents(const lab_tensors *a, const lab_tensors *b, const char *line) {
    for (int i = 0; i < a->count; i++) {
        assert_int_equal(a->buffer[i].bytes, b->buffer[i].bytes);
        if (a->buffer[i].map &&
            memcmp(a->buffer[i].data, b->buffer[i].data, a->buffer[i].bytes) != 0)
            fail_msg("%s: %s differs", line, a->size[i].name);
        assert_true(a->buffer[i].hash == b->buffer[i].hash);
    }
}

static void test_fill__any_number_of_threads__same_bits(void **state) {
    (void)state;
    for (int i = 0; i < VARIED; i++) {
        lab_workers_limit(1);
        lab_tensors *alone = made(varied[i], 11);
        for (int n = 0; n < crowds_used(); n++) {
            lab_workers_limit(crowds[n]);
            lab_tensors *together = made(varied[i], 11);
            assert_same_contents(alone, together, varied[i]);
            lab_tensors_destroy(together);
        }
        lab_tensors_destroy(alone);
    }
    lab_workers_limit(0);
}

/* A sequence is filled from one stream, in order: its end has the last numbers. */
static void test_fill__keys__numbers_of_one_stream_in_order(void **state) {
    (void)state;
    lab_tensors *t = made("b2h1s1sk700d24,f32", 5);
    lab_random random;
    lab_random_seed(&random, 5, 1); /* that of K */
    for (int64_t b = 0; b < 2; b++)
        for (int64_t j = 0; j < 700; j++)
            for (int64_t c = 0; c < 24; c++) {
                const int64_t at = att_ref_index_k(&t->spec.problem, &t->args, b, 0, j) + c;
                assert_true(((const float *)t->args.k)[at] == lab_random_normal(&random));
            }
    lab_tensors_destroy(t);
}

/* ------------------------------------------------------------------------ output rows */

static void assert_same_row(lab_row a, lab_row b) {
    assert_true(a.b == b.b && a.h == b.h && a.i == b.i && a.set == b.set);
}

static void test_strips__sequences_of_any_length__every_row_in_order(void **state) {
    (void)state;
    static const char *const lines[] = {"b5h3s300d8,f32,lens=0:300:1:0:299", "b3h2s256d8,f32",
                                        "b2h2s0sk5d8,f32", "b1h1s1d8,f32"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        lab_tensors *t = made(lines[i], 1);
        lab_row_strips strips;
        assert_true(lab_row_strips_open(&strips, t));
        lab_row_walk walk;
        int64_t n = 0;
        for (lab_walk_start(&walk, t); lab_walk_next(&walk); n++)
            assert_same_row(walk.row, lab_row_strips_row(&strips, n));
        assert_int_equal(n, strips.rows);
        lab_walk_start(&walk, t);
        for (int64_t s = 0; s < strips.count; s++) {
            lab_row row;
            for (int64_t left = lab_strip_first(&strips, s, &row); left > 0; left--) {
                assert_true(lab_walk_next(&walk));
                assert_same_row(walk.row, row);
                lab_strip_next(&strips, &row);
            }
        }
        assert_false(lab_walk_next(&walk));
        lab_row_strips_close(&strips);
        lab_tensors_destroy(t);
    }
}

/* --------------------------------------------------------------------------- verdicts */

/* Answers with errors, so that every sum has something to add. */
static void answer_row(lab_tensors *t, const lab_outputs *outputs, lab_row row,
                       const double *right, lab_random *random) {
    for (int i = 0; i < outputs->count; i++) {
        const lab_output *o = &outputs->list[i];
        if (o->set != row.set)
            continue;
        void *at = o->absent ? NULL : t->spec.operation->answer(&t->spec, &t->any, i, row);
        for (int64_t c = 0; at && c < o->d; c++)
            att_store(at, o->dtype, c * o->step,
                      (float)(right[c] * (1.0 + 1e-3 * (double)lab_random_normal(random))));
        right += o->d;
    }
}

static void answer_roughly(lab_tensors *t) {
    const lab_operation *operation = t->spec.operation;
    double *scratch =
        malloc((size_t)(operation->scratch(&t->spec, &t->any) + 1) * sizeof *scratch);
    double *right = malloc(4096 * sizeof *right), *sizes = malloc(4096 * sizeof *sizes);
    lab_row_walk walk;
    lab_random random;
    assert_true(scratch && right && sizes);
    lab_random_seed(&random, 1, 1);
    for (lab_walk_start(&walk, t); lab_walk_next(&walk);) {
        operation->oracle(&t->spec, &t->any, walk.row, scratch, right, sizes);
        answer_row(t, &walk.outputs, walk.row, right, &random);
    }
    free(sizes);
    free(right);
    free(scratch);
}

static lab_verify_result judged(const lab_tensors *t, int64_t max_work,
                                lab_reference_store *store) {
    static const uint64_t rows_seed = 9;
    lab_verify_result r;
    memset(&r, 0, sizeof r);
    const lab_verify_options options = {
        .seed = 11, .max_work = max_work, .rows_seed = &rows_seed, .store = store};
    lab_verify_outputs(&r, t, &options);
    return r;
}

static void test_judge__any_number_of_threads__same_bits(void **state) {
    (void)state;
    for (int i = 0; i < VARIED; i++)
        for (int64_t work = is_instrumented() ? 200000 : 0; work <= 200000; work += 200000) {
            lab_workers_limit(1);
            lab_tensors *t = made(varied[i], 11);
            answer_roughly(t);
            const uint64_t hash = lab_tensors_hash_outputs(t);
            const lab_verify_result alone = judged(t, work, NULL);
            for (int n = 0; n < crowds_used(); n++) {
                lab_workers_limit(crowds[n]);
                const lab_verify_result together = judged(t, work, NULL);
                assert_memory_equal(&alone, &together, sizeof alone);
                assert_true(lab_tensors_hash_outputs(t) == hash);
            }
            lab_tensors_destroy(t);
        }
    lab_workers_limit(0);
}

/* ------------------------------------------------------------------------------ store */

static void test_store__same_question__answered_once_with_the_same_bits(void **state) {
    (void)state;
    lab_reference_store *store = lab_reference_store_create(64 << 20);
    assert_non_null(store);
    for (int i = 0; i < VARIED; i++) {
        lab_tensors *t = made(varied[i], 11);
        answer_roughly(t);
        const lab_verify_result without = judged(t, 0, NULL), first = judged(t, 0, store);
        const size_t found = lab_reference_store_found(store);
        const lab_verify_result second = judged(t, 0, store);
        assert_int_equal(lab_reference_store_found(store), found + (first.rows_checked > 0));
        assert_memory_equal(&without, &first, sizeof first);
        assert_memory_equal(&without, &second, sizeof second);
        lab_tensors_destroy(t);
    }
    lab_reference_store_destroy(store);
}

static void test_store__another_seed_row_or_order__another_question(void **state) {
    (void)state;
    static const lab_row rows[] = {{0, 0, 1, 0}, {0, 1, 2, 0}};
    static const int one[LAB_SETS_MAX] = {1}, four[LAB_SETS_MAX] = {4};
    lab_tensors *t = made("b1h2s9d8,f32", 11), *other = made("b1h2s9d8,bf16", 11);
    lab_reference_store *store = lab_reference_store_create(64 << 20);
    const lab_reference_question asked = {t, 11, rows, 2, one};
    lab_references right;
    assert_true(lab_references_make(&right, t, rows, 2, one));
    assert_true(lab_reference_store_keep(store, &asked, &right));
    assert_null(right.oracle);
    assert_non_null(lab_reference_store_find(store, &asked));
    const lab_reference_question others[] = {{other, 11, rows, 2, one},
                                             {t, 12, rows, 2, one},
                                             {t, 11, rows, 1, one},
                                             {t, 11, rows + 1, 1, one},
                                             {t, 11, rows, 2, four}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_null(lab_reference_store_find(store, &others[i]));
    lab_reference_store_destroy(store);
    lab_tensors_destroy(other);
    lab_tensors_destroy(t);
}

static void test_store__full__keeps_no_more(void **state) {
    (void)state;
    static const lab_row row = {0, 0, 0, 0};
    static const int one[LAB_SETS_MAX] = {1};
    lab_tensors *t = made("b1h2s9d8,f32", 11);
    lab_reference_store *store = lab_reference_store_create(lab_references_bytes(1, 9, 1) +
                                                            lab_references_bytes(1, 9, 1) / 2);
    for (uint64_t seed = 0; seed < 3; seed++) {
        const lab_reference_question asked = {t, seed, &row, 1, one};
        lab_references right;
        assert_true(lab_references_make(&right, t, &row, 1, one));
        const bool kept = lab_reference_store_keep(store, &asked, &right);
        assert_int_equal(kept, seed == 0);
        assert_int_equal(lab_reference_store_find(store, &asked) != NULL, kept);
        if (!kept)
            lab_references_free(&right);
    }
    lab_reference_store_destroy(store);
    lab_tensors_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers__any_number__every_piece_once),
        cmocka_unit_test(test_random__jump__as_if_drawn),
        cmocka_unit_test(test_random__normals__those_of_single_draws),
        cmocka_unit_test(test_fill__any_number_of_threads__same_bits),
        cmocka_unit_test(test_fill__keys__numbers_of_one_stream_in_order),
        cmocka_unit_test(test_strips__sequences_of_any_length__every_row_in_order),
        cmocka_unit_test(test_judge__any_number_of_threads__same_bits),
        cmocka_unit_test(test_store__same_question__answered_once_with_the_same_bits),
        cmocka_unit_test(test_store__another_seed_row_or_order__another_question),
        cmocka_unit_test(test_store__full__keeps_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
