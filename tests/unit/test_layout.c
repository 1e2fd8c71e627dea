/* test_layout.c: the same results in any memory layout: strides, padding, broadcast, far
 * strides, pages. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/dtype.h"
#include "tests/support/cases.h"
#include "tests/support/fixture.h"

enum { BATCH = 2, HEADS_Q = 4, HEADS_KV = 2, KEYS = 53, D_QK = 24, D_V = 20 };

static att_problem problem_of(const test_case *c) {
    att_problem p;
    att_problem_init(&p, BATCH, HEADS_Q, HEADS_KV, c->rows, KEYS, D_QK, D_V, c->dtype);
    p.features = ATT_LSE;
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    return p;
}

static int64_t heads_of(const fixture *f, int tensor) {
    return tensor == BUF_Q ? f->problem.heads_q : f->problem.heads_kv;
}

/* Copy Q, K and V by index, for any strides of the two. */
static void copy_inputs(fixture *to, const fixture *from) {
    for (int tensor = BUF_Q; tensor <= BUF_V; tensor++) {
        const int64_t rows = tensor == BUF_Q ? from->problem.seq_q : from->problem.seq_k;
        const int64_t cols = tensor == BUF_V ? from->problem.d_v : from->problem.d_qk;
        for (int64_t b = 0; b < from->problem.batch; b++)
            for (int64_t h = 0; h < heads_of(from, tensor); h++)
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t x = 0; x < cols; x++)
                        fixture_set(to, tensor, b, h, r, x,
                                    fixture_get(from, tensor, b, h, r, x));
    }
}

static void assert_same_outputs(const fixture *f, const fixture *g) {
    for (int64_t b = 0; b < f->problem.batch; b++)
        for (int64_t h = 0; h < f->problem.heads_q; h++)
            for (int64_t i = 0; i < f->problem.seq_q; i++) {
                assert_true(fixture_lse(f, b, h, i) == fixture_lse(g, b, h, i));
                for (int64_t x = 0; x < f->problem.d_v; x++)
                    assert_true(fixture_get(f, BUF_O, b, h, i, x) ==
                                fixture_get(g, BUF_O, b, h, i, x));
            }
}

/* Run the plain problem and the one with other strides on the same numbers: the same bits. */
static void check_strides(const test_case *c, const att_problem *other) {
    const att_problem p = problem_of(c);
    fixture f, g;
    fixture_open(&f, &p, 3);
    fixture_open(&g, other, 4);
    copy_inputs(&g, &f);
    fixture_run_ok(&f, c->ctx);
    fixture_run_ok(&g, c->ctx);
    assert_same_outputs(&f, &g);
    fixture_close(&f);
    fixture_close(&g);
}

static void test_layout__bhsd__same_bits_as_bshd(void **state) {
    att_problem p = problem_of(*state);
    att_problem_layout_bhsd(&p);
    check_strides(*state, &p);
}

/* Padding after every row, head and batch entry, an odd number of elements; NaN inside. */
static void test_layout__padded__same_bits_and_padding_untouched(void **state) {
    const test_case *c = *state;
    const att_problem p = problem_of(c);
    att_problem padded = p;
    padded.q = (att_strides){(c->rows * (D_QK + 3) + 5) * HEADS_Q, c->rows * (D_QK + 3) + 5,
                             D_QK + 3, 1};
    padded.k =
        (att_strides){(KEYS * (D_QK + 1) + 7) * HEADS_KV, KEYS * (D_QK + 1) + 7, D_QK + 1, 1};
    padded.v =
        (att_strides){(KEYS * (D_V + 5) + 1) * HEADS_KV, KEYS * (D_V + 5) + 1, D_V + 5, 1};
    padded.o =
        (att_strides){(c->rows * (D_V + 3) + 9) * HEADS_Q, c->rows * (D_V + 3) + 9, D_V + 3, 1};
    padded.lse = (att_strides){c->rows * 2 * HEADS_Q + 3, c->rows * 2, 2, 1};
    fixture f, g;
    fixture_open(&f, &p, 3);
    fixture_open(&g, &padded, 4);
    for (int tensor = BUF_Q; tensor <= BUF_V; tensor++)
        fixture_fill(&g, tensor, NAN);
    copy_inputs(&g, &f);
    fixture_run_ok(&f, c->ctx);
    fixture_run_ok(&g, c->ctx);
    assert_same_outputs(&f, &g);
    /* overwriting the results with poison must leave nothing but poison */
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < HEADS_Q; h++)
            for (int64_t i = 0; i < c->rows; i++) {
                const size_t size = att_dtype_size(c->dtype);
                const int64_t at = b * padded.o.batch + h * padded.o.head + i * padded.o.row;
                memset(g.buf[BUF_O].data + (size_t)at * size, 0xa5, D_V * size);
                memset(
                    &g.args
                         .lse[b * padded.lse.batch + h * padded.lse.head + i * padded.lse.row],
                    0xa5, sizeof(float));
            }
    assert_true(fixture_poisoned(&g));
    fixture_close(&f);
    fixture_close(&g);
}

static void test_layout__packed_qkv__same_bits_as_bshd(void **state) {
    const test_case *c = *state;
    att_problem plain;
    att_problem_init(&plain, BATCH, HEADS_Q, HEADS_KV, c->rows, c->rows, D_QK, D_V, c->dtype);
    plain.features = ATT_LSE;
    att_problem packed = plain;
    int64_t k_offset, v_offset;
    att_problem_layout_packed(&packed, &k_offset, &v_offset);
    fixture f, g;
    fixture_open(&f, &plain, 5);
    fixture_open(&g, &packed, 6);
    copy_inputs(&g, &f);
    /* the three guarded blocks become one buffer */
    const int64_t row = HEADS_Q * D_QK + HEADS_KV * D_QK + HEADS_KV * D_V;
    const size_t size = att_dtype_size(c->dtype);
    guarded one = guard_open((size_t)(BATCH * c->rows * row) * size, size);
    for (int64_t r = 0; r < BATCH * c->rows; r++) {
        unsigned char *to = one.data + (size_t)(r * row) * size;
        const size_t from = (size_t)(r * row) * size;
        memcpy(to, g.buf[BUF_Q].data + from, (size_t)k_offset * size);
        memcpy(to + (size_t)k_offset * size, g.buf[BUF_K].data + from,
               (size_t)(v_offset - k_offset) * size);
        memcpy(to + (size_t)v_offset * size, g.buf[BUF_V].data + from,
               (size_t)(row - v_offset) * size);
    }
    g.args.q = one.data;
    g.args.k = one.data + (size_t)k_offset * size;
    g.args.v = one.data + (size_t)v_offset * size;
    fixture_run_ok(&f, c->ctx);
    fixture_run_ok(&g, c->ctx);
    assert_same_outputs(&f, &g);
    guard_close(&one);
    fixture_close(&f);
    fixture_close(&g);
}

/* Stride 0 over the batch, over the heads, over the rows: as if the numbers had been copied. */
static void test_layout__zero_strides__same_bits_as_copies(void **state) {
    const test_case *c = *state;
    for (int which = 1; which < 8; which++) {
        const att_problem p = problem_of(c);
        att_problem broadcast = p;
        if (which & 1)
            broadcast.k.batch = broadcast.v.batch = broadcast.q.batch = 0;
        if (which & 2)
            broadcast.k.head = broadcast.v.head = 0;
        if (which & 4)
            broadcast.v.row = 0;
        fixture f, g;
        fixture_open(&g, &broadcast, 7);
        fixture_open(&f, &p, 8);
        copy_inputs(&f, &g);
        fixture_run_ok(&f, c->ctx);
        fixture_run_ok(&g, c->ctx);
        assert_same_outputs(&f, &g);
        fixture_close(&f);
        fixture_close(&g);
    }
}

/* A dimension of size 1 is never stepped along, so its stride may be anything. */
static void test_layout__absurd_stride_of_a_single_entry__served(void **state) {
    const test_case *c = *state;
    static const int64_t absurd[] = {INT64_MAX, INT64_MIN, -1, 0};
    for (size_t i = 0; i < 4; i++) {
        att_problem p;
        att_problem_init(&p, 1, 1, 1, c->rows, KEYS, D_QK, D_V, c->dtype);
        p.features = ATT_LSE | ATT_BIAS;
        p.bias_dtype = ATT_F32;
        p.bias = (att_strides){KEYS, KEYS, 0, 1};
        att_problem q = p;
        q.q.batch = q.k.batch = q.v.batch = q.o.batch = q.lse.batch = q.bias.batch = absurd[i];
        q.q.head = q.k.head = q.v.head = q.o.head = q.lse.head = q.bias.head = absurd[i];
        q.lse.col = absurd[i];
        if (c->rows == 1)
            q.q.row = q.o.row = q.lse.row = q.bias.row = absurd[i];
        fixture f, g;
        fixture_open(&f, &p, 3);
        fixture_open(&g, &q, 3);
        fixture_run_ok(&f, c->ctx);
        fixture_run_ok(&g, c->ctx);
        assert_same_outputs(&f, &g);
        fixture_close(&f);
        fixture_close(&g);
    }
}

/* Bases with only the alignment of an element. */
static void test_layout__any_element_offset__same_bits(void **state) {
    const test_case *c = *state;
    const att_problem p = problem_of(c);
    const size_t size = att_dtype_size(c->dtype);
    fixture f;
    fixture_open(&f, &p, 3);
    fixture_run_ok(&f, c->ctx);
    void *o = fixture_copy(&f, BUF_O);
    for (size_t shift = 0; shift < 64 / size; shift += 3) {
        guarded moved[3], out = guard_open(f.buf[BUF_O].bytes + 64, 64);
        for (int tensor = BUF_Q; tensor <= BUF_V; tensor++) {
            moved[tensor] = guard_open(f.buf[tensor].bytes + 64, 64);
            memcpy(moved[tensor].data + shift * size, f.buf[tensor].data, f.buf[tensor].bytes);
        }
        f.args.q = moved[BUF_Q].data + shift * size;
        f.args.k = moved[BUF_K].data + shift * size;
        f.args.v = moved[BUF_V].data + shift * size;
        f.args.o = out.data + shift * size;
        fixture_run_ok(&f, c->ctx);
        assert_memory_equal(f.args.o, o, f.buf[BUF_O].bytes);
        for (int tensor = BUF_Q; tensor <= BUF_V; tensor++)
            guard_close(&moved[tensor]);
        guard_close(&out);
    }
    free(o);
    fixture_close(&f);
}

static void test_run__any__inputs_unchanged(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c);
    p.causal = ATT_CAUSAL_NONE;
    p.align = ATT_ALIGN_TOP_LEFT;
    p.features |= ATT_ALIBI | ATT_BIAS | ATT_SINKS | ATT_LENS_K;
    p.bias_dtype = c->dtype;
    p.bias = (att_strides){0, 0, KEYS, 1};
    fixture f;
    fixture_open(&f, &p, 3);
    void *before[BUF_COUNT] = {0};
    for (int i = 0; i < BUF_COUNT; i++)
        if (i != BUF_O && i != BUF_LSE && f.buf[i].map)
            before[i] = fixture_copy(&f, i);
    fixture_run_ok(&f, c->ctx);
    for (int i = 0; i < BUF_COUNT; i++)
        if (before[i])
            assert_true(fixture_same(&f, i, before[i]));
    for (int i = 0; i < BUF_COUNT; i++)
        free(before[i]);
    fixture_close(&f);
}

/* Rows 2^30 elements apart: few elements, offsets past 2^31 elements and 2^32 bytes. */
static void test_layout__rows_far_apart__addressed_in_64_bits(void **state) {
    const test_case *c = *state;
    enum { ROWS_K = 5, D = 8 };
    const int64_t stride = INT64_C(1) << 30;
    const size_t size = att_dtype_size(c->dtype);
    const size_t bytes = ((size_t)(ROWS_K - 1) * (size_t)stride + D) * size;
    unsigned char *far = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(far != MAP_FAILED);
    att_problem p;
    att_problem_init(&p, 1, 1, 1, c->rows, ROWS_K, D, D, c->dtype);
    p.features = ATT_LSE;
    fixture f;
    fixture_open(&f, &p, 3);
    fixture_run_ok(&f, c->ctx);
    void *o = fixture_copy(&f, BUF_O);
    for (int tensor = BUF_K; tensor <= BUF_V; tensor++) {
        for (int64_t j = 0; j < ROWS_K; j++)
            memcpy(far + (size_t)(j * stride) * size, f.buf[tensor].data + (size_t)j * D * size,
                   D * size);
        att_strides *strides = tensor == BUF_K ? &f.problem.k : &f.problem.v;
        const void **base = tensor == BUF_K ? &f.args.k : &f.args.v;
        const int64_t near_stride = strides->row;
        const void *near = *base;
        strides->row = stride;
        *base = far;
        fixture_poison(&f);
        fixture_run_ok(&f, c->ctx);
        assert_true(fixture_same(&f, BUF_O, o));
        strides->row = near_stride;
        *base = near;
    }
    free(o);
    fixture_close(&f);
    munmap(far, bytes);
}

/* --------------------------------------------------------- packed and paged */

/* The same keys in pages, some of them shared by both sequences, in any order. */
static void check_pages(const test_case *c, int64_t page_size, bool with_lengths) {
    att_problem p = problem_of(c);
    p.features |= with_lengths ? ATT_LENS_K : 0u;
    const int64_t columns = (KEYS + page_size - 1) / page_size;
    att_problem paged = p;
    paged.features |= ATT_PAGED;
    paged.page_size = page_size;
    paged.num_pages = 2 * columns + 1;
    paged.page_table_stride = columns + 2;
    paged.k = (att_strides){page_size * HEADS_KV * D_QK, D_QK, HEADS_KV * D_QK, 1};
    paged.v = (att_strides){page_size * HEADS_KV * D_V, page_size * D_V, D_V, 1};
    fixture f, g;
    fixture_open(&g, &paged, 4); /* pages in reverse order */
    int32_t *table = (int32_t *)(void *)g.buf[BUF_PAGES].data;
    table[paged.page_table_stride] =
        table[0]; /* the first page of both sequences is one page */
    fixture_open(&f, &p, 3);
    copy_inputs(&f, &g);
    if (with_lengths)
        for (int64_t b = 0; b < BATCH; b++) {
            ((int32_t *)(void *)f.buf[BUF_LENS_K].data)[b] = (int32_t)(KEYS - 9 - 20 * b);
            ((int32_t *)(void *)g.buf[BUF_LENS_K].data)[b] = (int32_t)(KEYS - 9 - 20 * b);
        }
    fixture_run_ok(&f, c->ctx);
    fixture_run_ok(&g, c->ctx);
    assert_same_outputs(&f, &g);
    fixture_close(&f);
    fixture_close(&g);
}

static void test_pages__shared_and_permuted__same_bits_as_contiguous(void **state) {
    static const int64_t sizes[] = {1, 3, 16, 17, 64, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_pages(*state, sizes[i], false);
        check_pages(*state, sizes[i], true);
    }
}

/* Packed sequences give the same result as each one alone. */
static void test_packed__each_sequence__same_as_alone(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c);
    p.features |= ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K;
    p.total_q = 2 * c->rows;
    p.total_k = KEYS + 20;
    att_problem_layout_bshd(&p);
    fixture f;
    fixture_open(&f, &p, 5);
    int32_t *cu_k = (int32_t *)(void *)f.buf[BUF_CU_K].data;
    cu_k[1] = 20;
    cu_k[2] = 20 + KEYS;
    fixture_run_ok(&f, c->ctx);
    for (int64_t b = 0; b < BATCH; b++) {
        att_problem one;
        att_problem_init(&one, 1, HEADS_Q, HEADS_KV, c->rows, cu_k[b + 1] - cu_k[b], D_QK, D_V,
                         c->dtype);
        one.features = ATT_LSE;
        one.causal = p.causal;
        fixture g;
        fixture_open(&g, &one, 6);
        for (int tensor = BUF_Q; tensor <= BUF_V; tensor++)
            for (int64_t h = 0; h < heads_of(&g, tensor); h++)
                for (int64_t r = 0; r < (tensor == BUF_Q ? c->rows : one.seq_k); r++)
                    for (int64_t x = 0; x < (tensor == BUF_V ? D_V : D_QK); x++)
                        fixture_set(&g, tensor, 0, h, r, x,
                                    fixture_get(&f, tensor, b, h, r, x));
        fixture_run_ok(&g, c->ctx);
        const double rounding = c->dtype == ATT_F32 ? 1e-6 : c->dtype == ATT_F16 ? 1e-3 : 8e-3;
        for (int64_t h = 0; h < HEADS_Q; h++)
            for (int64_t i = 0; i < c->rows; i++) {
                assert_near(fixture_lse(&f, b, h, i), fixture_lse(&g, 0, h, i), 1e-5);
                for (int64_t x = 0; x < D_V; x++)
                    assert_near(fixture_get(&f, BUF_O, b, h, i, x),
                                fixture_get(&g, BUF_O, 0, h, i, x), rounding);
            }
        fixture_close(&g);
    }
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout__bhsd__same_bits_as_bshd),
        cmocka_unit_test(test_layout__padded__same_bits_and_padding_untouched),
        cmocka_unit_test(test_layout__packed_qkv__same_bits_as_bshd),
        cmocka_unit_test(test_layout__zero_strides__same_bits_as_copies),
        cmocka_unit_test(test_layout__absurd_stride_of_a_single_entry__served),
        cmocka_unit_test(test_layout__any_element_offset__same_bits),
        cmocka_unit_test(test_run__any__inputs_unchanged),
        cmocka_unit_test(test_layout__rows_far_apart__addressed_in_64_bits),
        cmocka_unit_test(test_pages__shared_and_permuted__same_bits_as_contiguous),
        cmocka_unit_test(test_packed__each_sequence__same_as_alone),
    };
    return cases_run(tests, sizeof tests / sizeof tests[0]);
}
