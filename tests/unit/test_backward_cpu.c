/* test_backward_cpu.c: gradients on every instruction set: features, strides, lengths, edges,
 * refusals. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "tests/support/engines.h"
#include "tests/support/gradients.h"
#include "tests/support/instrumented.h"
#include "tests/support/rng.h"

static void dense(att_problem *p, int64_t batch, int64_t heads_q, int64_t heads_kv,
                  int64_t seq_q, int64_t seq_k, int64_t d_qk, int64_t d_v, att_dtype dtype) {
    att_problem_init(p, batch, heads_q, heads_kv, seq_q, seq_k, d_qk, d_v, dtype);
    p->features = ATT_LSE;
}

/* A separate bias per (batch, head, row, key), or one shared along the given dimensions. */
static void add_bias(att_problem *p, att_dtype dtype, bool batch, bool head, bool row,
                     bool col) {
    p->features |= ATT_BIAS;
    p->bias_dtype = dtype;
    const int64_t keys = col ? 1 : p->seq_k, rows = row ? 1 : p->seq_q;
    p->bias = (att_strides){.batch = batch ? 0 : (head ? 1 : p->heads_q) * rows * keys,
                            .head = head ? 0 : rows * keys,
                            .row = row ? 0 : keys,
                            .col = col ? 0 : 1};
    p->grad_bias = p->bias;
    if (dtype != ATT_BOOL8)
        p->gradients |= ATT_D_BIAS;
}

static void check_on_all(const engines *e, const att_problem *p,
                         const gradient_lengths *lengths, uint64_t seed, float loud) {
    enum {
        EVERY = 11
    }; /* of the calls: coprime to the loops around it, which have 2, 3, 4 or
        * 16 iterations */
    static int calls;
    gradients g;
    if (is_instrumented() && calls++ % EVERY)
        return;
    gradients_open(&g, p, lengths, seed, loud);
    for (int k = 0; k < e->count; k++) {
        assert_ok(gradients_run(&g, e->ctx[k]));
        gradients_check(&g, gradients_unit(p));
        assert_non_null(g.launch.kernel);
        assert_int_equal(strncmp(g.launch.kernel, "bwd_cpu_", 8), 0);
    }
    gradients_close(&g);
}

static const att_dtype types[] = {ATT_F32, ATT_F16, ATT_BF16};

static void test_backward__sizes_and_types__near_float64(void **state) {
    static const struct {
        int64_t batch, heads_q, heads_kv, seq_q, seq_k, d_qk, d_v;
    } sizes[] = {{1, 1, 1, 1, 1, 1, 1},       {1, 1, 1, 5, 3, 8, 8},
                 {2, 4, 2, 97, 130, 64, 64},  {1, 2, 1, 129, 257, 40, 24},
                 {1, 3, 1, 31, 65, 7, 130},   {1, 1, 1, 50, 300, 128, 64},
                 {1, 1, 1, 33, 40, 256, 256}, {1, 2, 2, 0, 9, 16, 16},
                 {1, 2, 2, 9, 0, 16, 16},     {0, 2, 2, 9, 9, 16, 16}};
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++)
        for (int t = 0; t < 3; t++) {
            att_problem p;
            dense(&p, sizes[n].batch, sizes[n].heads_q, sizes[n].heads_kv, sizes[n].seq_q,
                  sizes[n].seq_k, sizes[n].d_qk, sizes[n].d_v, types[t]);
            check_on_all(*state, &p, NULL, 10 * n + (size_t)t, 1.0f);
            p.dtype_grad = ATT_F32;
            p.dtype_o = types[(t + 1) % 3];
            check_on_all(*state, &p, NULL, 10 * n + (size_t)t, 1.0f);
        }
}

static void test_backward__masks_and_windows__near_float64(void **state) {
    static const struct {
        att_causal causal;
        att_align align;
        int64_t left, right, seq_q, seq_k;
    } masks[] = {
        {ATT_CAUSAL_TOP_LEFT, ATT_ALIGN_UNSET, -1, -1, 150, 150},
        {ATT_CAUSAL_TOP_LEFT, ATT_ALIGN_UNSET, -1, -1, 200, 100},
        {ATT_CAUSAL_BOTTOM_RIGHT, ATT_ALIGN_UNSET, -1, -1, 70, 200},
        {ATT_CAUSAL_BOTTOM_RIGHT, ATT_ALIGN_UNSET, -1, -1, 200, 70}, /* rows without keys */
        {ATT_CAUSAL_TOP_LEFT, ATT_ALIGN_UNSET, 20, -1, 300, 300},
        {ATT_CAUSAL_NONE, ATT_ALIGN_TOP_LEFT, 33, 5, 260, 290},
        {ATT_CAUSAL_NONE, ATT_ALIGN_BOTTOM_RIGHT, 0, 0, 140, 150},
        {ATT_CAUSAL_NONE, ATT_ALIGN_TOP_LEFT, 3, -1, 300, 60}};
    for (size_t n = 0; n < sizeof masks / sizeof masks[0]; n++)
        for (int t = 0; t < 3; t++) {
            att_problem p;
            dense(&p, 1, 4, 2, masks[n].seq_q, masks[n].seq_k, 32, 48, types[t]);
            p.causal = masks[n].causal;
            p.align = masks[n].align;
            p.window_left = masks[n].left;
            p.window_right = masks[n].right;
            check_on_all(*state, &p, NULL, 100 + n, 1.0f);
        }
}

static void test_backward__scores_shaped__near_float64(void **state) {
    for (int t = 0; t < 3; t++)
        for (int bits = 1; bits < 16; bits++) {
            att_problem p;
            dense(&p, 2, 4, 2, 70, 140, 24, 16, types[t]);
            p.causal = bits & 8 ? ATT_CAUSAL_BOTTOM_RIGHT : ATT_CAUSAL_NONE;
            p.align = bits & 8 ? ATT_ALIGN_UNSET : ATT_ALIGN_TOP_LEFT;
            if (bits & 1)
                p.softcap = 1.5f;
            if (bits & 2) {
                p.features |= ATT_ALIBI;
                p.gradients |= ATT_D_ALIBI;
                p.alibi_stride_batch = t == 0 ? 0 : 4 + t;
            }
            if (bits & 4) {
                p.features |= ATT_SINKS;
                p.gradients |= ATT_D_SINKS;
            }
            check_on_all(*state, &p, NULL, 200 + (uint64_t)bits, 2.0f);
            p.scale = -0.3f;
            check_on_all(*state, &p, NULL, 300 + (uint64_t)bits, 2.0f);
        }
}

static void test_backward__biases__summed_where_they_are_broadcast(void **state) {
    static const att_dtype kinds[] = {ATT_F32, ATT_F16, ATT_BF16, ATT_BOOL8};
    for (int kind = 0; kind < 4; kind++)
        for (int bits = 0; bits < 16; bits++) {
            att_problem p;
            dense(&p, 2, 4, 2, 41, 150, 16, 24, types[bits % 3]);
            add_bias(&p, kinds[kind], bits & 1, bits & 2, bits & 4, bits & 8);
            if (bits == 2) {
                p.causal = ATT_CAUSAL_TOP_LEFT;
                p.features |= ATT_STARTS_K | ATT_LENS_K;
            }
            p.dtype_grad = bits & 1 ? ATT_F32 : p.dtype;
            const gradient_lengths lengths = {.lens_k = {101, 150}, .starts_k = {3, 37}};
            check_on_all(*state, &p, &lengths, 400 + (uint64_t)bits, 1.0f);
        }
}

static void test_backward__bias_of_any_strides__near_float64(void **state) {
    att_problem p;
    dense(&p, 2, 2, 2, 20, 33, 16, 16, ATT_F32);
    add_bias(&p, ATT_F32, false, false, false, false);
    p.bias = (att_strides){.batch = 3000, .head = 1, .row = 2, .col = 45};
    p.grad_bias = (att_strides){.batch = 1, .head = 2, .row = 140, .col = 4};
    check_on_all(*state, &p, NULL, 450, 1.0f);
}

static void test_backward__lengths_vary__near_float64(void **state) {
    const gradient_lengths lengths = {.cu_q = {0, 17, 17, 147, 151},
                                      .cu_k = {0, 40, 61, 191, 191},
                                      .lens_k = {33, 150, 0, 12},
                                      .starts_k = {5, 149, 2, 12},
                                      .q_offsets = {30, 0, 200, 7},
                                      .k_offsets = {0, 50, 190, 0}};
    static const uint32_t features[] = {
        ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K,
        ATT_CU_SEQLENS_Q,
        ATT_CU_SEQLENS_K,
        ATT_LENS_K,
        ATT_STARTS_K,
        ATT_LENS_K | ATT_STARTS_K,
        ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K | ATT_LENS_K | ATT_STARTS_K,
        ATT_Q_OFFSETS,
        ATT_K_OFFSETS | ATT_CU_SEQLENS_Q,
        ATT_Q_OFFSETS | ATT_K_OFFSETS | ATT_STARTS_K};
    for (size_t n = 0; n < sizeof features / sizeof features[0]; n++)
        for (int t = 0; t < 3; t++)
            for (int causal = 0; causal < 3; causal++) {
                att_problem p;
                dense(&p, 4, 4, 2, 130, 150, 16, 24, types[t]);
                p.features |= features[n];
                p.total_q = features[n] & ATT_CU_SEQLENS_Q ? 155 : 0;
                p.total_k = features[n] & ATT_CU_SEQLENS_K ? 199 : 0;
                att_problem_layout_bshd(&p);
                p.causal = (att_causal)causal;
                const bool placed = features[n] & (ATT_Q_OFFSETS | ATT_K_OFFSETS);
                if (placed && p.causal == ATT_CAUSAL_BOTTOM_RIGHT) { /* a window instead */
                    p.causal = ATT_CAUSAL_NONE;
                    p.align = ATT_ALIGN_TOP_LEFT;
                    p.window_left = 20;
                    p.window_right = 9;
                    p.q_offset = 15;
                }
                check_on_all(*state, &p, &lengths, 500 + n, 1.0f);
            }
}

static void test_backward__any_strides__padding_untouched(void **state) {
    const engines *e = *state;
    for (int t = 0; t < 3; t++) {
        att_problem p;
        dense(&p, 2, 2, 1, 9, 40, 8, 12, types[t]);
        p.q = (att_strides){.batch = 0, .head = 9, .row = 31, .col = 1};
        p.k = (att_strides){.batch = 11, .head = 0, .row = 23, .col = 1};
        p.v = (att_strides){.batch = 2000, .head = 5, .row = 0, .col = 1};
        p.lse = (att_strides){.batch = 1, .head = 30, .row = 2, .col = 7};
        p.grad_o = (att_strides){.batch = 13, .head = 0, .row = 26, .col = 1};
        p.grad_q = (att_strides){.batch = 10, .head = 21, .row = 50, .col = 1};
        p.grad_k = (att_strides){.batch = 9, .head = 1, .row = 19, .col = 1};
        p.grad_v = (att_strides){.batch = 600, .head = 1, .row = 14, .col = 1};
        gradients g;
        gradients_open(&g, &p, NULL, 600, 1.0f);
        for (int k = 0; k < e->count; k++) {
            assert_ok(gradients_run(&g, e->ctx[k]));
            gradients_check(&g, gradients_unit(&p));
            const int64_t bytes = att_dtype_bytes(p.dtype_grad);
            for (int64_t x = 8 * bytes; x < 9 * bytes; x++) /* between two rows */
                assert_int_equal(g.d_k.data[x], 0xff);
        }
        gradients_close(&g);
    }
}

/* NaN and Inf in elements that no row sees. */
static void test_backward__hidden_values__reach_no_gradient(void **state) {
    const engines *e = *state;
    for (int kind = 0; kind < 4; kind++)
        for (int t = 0; t < 3; t++) {
            att_problem p;
            dense(&p, 2, 2, 1, 60, 170, 16, 24, types[t]);
            const gradient_lengths lengths = {.lens_k = {120, 5}, .starts_k = {60, 3}};
            if (kind == 0)
                p.features |= ATT_LENS_K | ATT_STARTS_K;
            else if (kind == 1)
                p.causal = ATT_CAUSAL_TOP_LEFT;
            else
                add_bias(&p, kind == 2 ? ATT_BOOL8 : ATT_F32, true, true, true, false);
            gradients g;
            gradients_open(&g, &p, &lengths, 700, 1.0f);
            for (int64_t b = 0; b < p.batch; b++)
                for (int64_t j = 0; j < p.seq_k; j++) {
                    bool seen = false;
                    for (int64_t h = 0; h < p.heads_q; h++)
                        for (int64_t i = 0; i < p.seq_q; i++)
                            seen = seen || gradients_seen(&g, b, h, i, j);
                    for (int64_t x = 0; !seen && x < p.d_qk; x++)
                        att_store(g.k.data, p.dtype, gradients_at_k(&g, &p.k, b, 0, j) + x,
                                  x % 2 ? NAN : INFINITY);
                    for (int64_t x = 0; !seen && x < p.d_v; x++)
                        att_store(g.v.data, p.dtype, gradients_at_k(&g, &p.v, b, 0, j) + x,
                                  x % 2 ? -INFINITY : NAN);
                }
            for (int k = 0; k < e->count; k++) {
                assert_ok(gradients_run(&g, e->ctx[k]));
                gradients_check(&g, gradients_unit(&p));
            }
            gradients_close(&g);
        }
}

/* NaN in Q and d_o of rows that see no key, by the mask or by a bias of any strides. */
static void test_backward__nan_in_rows_without_keys__reaches_no_gradient(void **state) {
    const engines *e = *state;
    for (int kind = 0; kind < 3; kind++) {
        att_problem p;
        dense(&p, 1, 2, 1, 70, 45, 16, 16, ATT_F32);
        p.features |= ATT_SINKS;
        p.gradients = ATT_D_SINKS;
        if (kind == 0)
            p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
        else
            add_bias(&p, ATT_F32, false, false, false, false);
        if (kind == 2)
            p.bias = p.grad_bias =
                (att_strides){.batch = 0, .head = 45 * 140, .row = 2, .col = 140};
        gradients g;
        gradients_open(&g, &p, NULL, 750, 1.0f);
        for (int64_t i = 0; kind && i < 25; i++) /* rows whose keys are all hidden by the
                                                  * bias */
            for (int64_t h = 0; h < 2; h++)
                for (int64_t j = 0; j < p.seq_k; j++)
                    ((float *)(void *)
                         g.bias.data)[h * p.bias.head + i * p.bias.row + j * p.bias.col] =
                        -INFINITY;
        gradients_answer(&g);
        for (int64_t i = 0; i < 25; i++)
            for (int64_t h = 0; h < 2; h++)
                for (int64_t x = 0; x < 16; x++) {
                    att_store(g.q.data, p.dtype, gradients_at_q(&g, &p.q, 0, h, i) + x, NAN);
                    att_store(g.d_o.data, p.dtype, gradients_at_q(&g, &p.grad_o, 0, h, i) + x,
                              NAN);
                }
        for (int k = 0; k < e->count; k++) {
            assert_ok(gradients_run(&g, e->ctx[k]));
            gradients_check(&g, gradients_unit(&p));
        }
        gradients_close(&g);
    }
}

/* A key that some rows see is NaN: the gradients of other rows, and of keys that share no row
 * with it, are unchanged. */
static void test_backward__nan_in_a_seen_key__reaches_only_rows_that_see_it(void **state) {
    const engines *e = *state;
    for (int t = 0; t < 3; t++) {
        att_problem p;
        dense(&p, 1, 1, 1, 200, 200, 16, 16, types[t]);
        p.causal = ATT_CAUSAL_TOP_LEFT;
        p.window_left = 30;
        gradients g;
        gradients_open(&g, &p, NULL, 800, 1.0f);
        const int64_t bad = 77;
        att_store(g.k.data, p.dtype, gradients_at_k(&g, &p.k, 0, 0, bad), NAN);
        for (int64_t i = bad; i <= bad + 30; i++) { /* as forward leaves them */
            att_store(g.o.data, p.dtype_o, gradients_at_q(&g, &p.o, 0, 0, i), NAN);
            ((float *)(void *)g.lse.data)[gradients_at_q(&g, &p.lse, 0, 0, i)] = NAN;
        }
        for (int k = 0; k < e->count; k++) {
            assert_ok(gradients_run(&g, e->ctx[k]));
            const double unit = gradients_unit(&p);
            for (int64_t i = 0; i < p.seq_q; i++)
                for (int64_t x = 0; x < p.d_qk; x++) {
                    const float got = att_load(g.d_q.data, p.dtype_grad,
                                               gradients_at_q(&g, &p.grad_q, 0, 0, i) + x);
                    if (i >= bad && i <= bad + 30)
                        assert_true(isnan(got));
                    else
                        assert_near((double)got, g.want.d_q[i * p.d_qk + x], unit);
                }
            for (int64_t j = 0; j < p.seq_k; j++)
                for (int64_t x = 0; x < p.d_v; x++) {
                    const float d_k = att_load(g.d_k.data, p.dtype_grad,
                                               gradients_at_k(&g, &p.grad_k, 0, 0, j) + x);
                    const float d_v = att_load(g.d_v.data, p.dtype_grad,
                                               gradients_at_k(&g, &p.grad_v, 0, 0, j) + x);
                    if (j < bad - 30 || j > bad + 30) {
                        assert_near((double)d_k, g.want.d_k[j * p.d_qk + x], 2.0 * unit);
                        assert_near((double)d_v, g.want.d_v[j * p.d_v + x], 4.0 * unit);
                    } else {
                        assert_true(isnan(d_k) && isnan(d_v));
                    }
                }
        }
        gradients_close(&g);
    }
}

static void test_backward__scores_past_float32__finite(void **state) {
    const engines *e = *state;
    att_problem p;
    dense(&p, 1, 1, 1, 20, 30, 16, 16, ATT_F32);
    for (int kind = 0; kind < 2; kind++) {
        gradients g;
        /* Products of 1e38: partial sums overflow, their difference need not. */
        gradients_open(&g, &p, NULL, 900, kind ? 1e3f : 1e19f);
        if (kind == 1)
            for (int64_t i = 0; i < p.seq_q; i++) /* forward could not represent it */
                ((float *)(void *)g.lse.data)[i] = INFINITY;
        for (int k = 0; k < e->count; k++) {
            assert_ok(gradients_run(&g, e->ctx[k]));
            const float *d_q = (const float *)(const void *)g.d_q.data;
            const float *d_v = (const float *)(const void *)g.d_v.data;
            for (int64_t x = 0; x < p.seq_q * p.d_qk; x++)
                assert_true(isfinite(d_q[x]));
            for (int64_t x = 0; x < p.seq_k * p.d_v; x++)
                assert_near((double)d_v[x], g.want.d_v[x], 1e-2);
        }
        gradients_close(&g);
    }
}

static void test_backward__huge_and_tiny_d_o__finite(void **state) {
    const engines *e = *state;
    for (int t = 0; t < 3; t++)
        for (int kind = 0; kind < 2; kind++) {
            att_problem p;
            dense(&p, 1, 1, 1, 40, 50, 16, 16, types[t]);
            p.dtype_grad = ATT_F32;
            gradients g;
            gradients_open(&g, &p, NULL, 1000, 1.0f);
            static const float factors[2][2] = {{0x1p-14f, 0x1p15f}, {0x1p-122f, 0x1p115f}};
            const float by = factors[p.dtype != ATT_F16][kind];
            for (int64_t x = 0; x < p.seq_q * p.d_v; x++)
                att_store(g.d_o.data, p.dtype, x, by * att_load(g.d_o.data, p.dtype, x));
            double *all[] = {g.want.d_q, g.want.d_k, g.want.d_v};
            const int64_t sizes[] = {p.seq_q, p.seq_k, p.seq_k};
            for (int n = 0; n < 3; n++)
                for (int64_t x = 0; x < sizes[n] * p.d_qk; x++)
                    all[n][x] *= (double)by;
            for (int k = 0; k < e->count; k++) {
                assert_ok(gradients_run(&g, e->ctx[k]));
                for (int64_t x = 0; x < p.seq_q * p.d_qk; x++)
                    assert_near((double)((const float *)(const void *)g.d_q.data)[x],
                                g.want.d_q[x], gradients_unit(&p) * (double)by);
            }
            gradients_close(&g);
        }
}

static void test_backward__workspace__linear_and_within_its_limit(void **state) {
    const engines *e = *state;
    for (int k = 0; k < e->count; k++)
        for (int64_t seq = 1024; seq <= 16384; seq *= 16) {
            att_problem p;
            att_plan *plan;
            dense(&p, 2, 8, 8, seq, seq, 64, 64, ATT_BF16);
            assert_ok(att_backward_plan_create(&plan, e->ctx[k], &p));
            assert_true(att_plan_workspace(plan) <= (size_t)(2 * 8 * seq * 64 * 4) * 2);
            att_plan_destroy(plan);
        }
}

static void test_backward__bad_problems__refused_by_field(void **state) {
    const engines *e = *state;
    att_problem good;
    dense(&good, 2, 2, 1, 8, 8, 8, 8, ATT_BF16);
#define BAD(change, status, field, word)                                                       \
    do {                                                                                       \
        att_problem p = good;                                                                  \
        att_plan *plan = NULL;                                                                 \
        change;                                                                                \
        assert_fails(att_backward_plan_create(&plan, e->ctx[0], &p), status, field, word);     \
        assert_null(plan);                                                                     \
    } while (0)
    BAD(p.features = 0, ATT_E_ARG, "features", "ATT_LSE");
    BAD(p.gradients = 8, ATT_E_ARG, "gradients", "unknown");
    BAD(p.gradients = ATT_D_BIAS, ATT_E_ARG, "gradients", "ATT_BIAS");
    BAD(p.gradients = ATT_D_SINKS, ATT_E_ARG, "gradients", "ATT_SINKS");
    BAD(p.gradients = ATT_D_ALIBI, ATT_E_ARG, "gradients", "ATT_ALIBI");
    BAD(p.dtype_grad = ATT_F16, ATT_E_ARG, "dtype_grad", "f32");
    BAD(dense(&p, 2, 2, 1, 8, 8, 257, 8, ATT_BF16), ATT_E_UNSUPPORTED, "d_qk", "257");
    BAD(dense(&p, 2, 2, 1, 8, 8, 8, 300, ATT_BF16), ATT_E_UNSUPPORTED, "d_v", "300");
    BAD(p.grad_q.row = 0, ATT_E_ALIAS, "grad_q.row", "grad_q");
    BAD(p.grad_k.col = 2, ATT_E_ARG, "grad_k.col", "grad_k");
    BAD(p.grad_v.row = -1, ATT_E_ARG, "grad_v.row", "grad_v");
    BAD(p.grad_o.col = 2, ATT_E_ARG, "grad_o.col", "grad_o");
    BAD(add_bias(&p, ATT_F32, true, false, false, false);
        p.grad_bias.batch = 200, ATT_E_ARG, "grad_bias", "broadcast");
    BAD(add_bias(&p, ATT_BOOL8, true, false, false, false);
        p.gradients = ATT_D_BIAS, ATT_E_ARG, "gradients", "boolean");
    BAD(p.features |= ATT_PAGED; p.page_size = 8; p.num_pages = 4;
        p.page_table_stride = 1, ATT_E_ARG, "features", "ATT_PAGED");
    BAD(dense(&p, INT64_C(1) << 52, 2, 1, 1, 1, 8, 8, ATT_BF16), ATT_E_OVERFLOW, "seq_q",
        "workspace");
    BAD(dense(&p, INT64_MAX, 2, 2, 0, 0, 8, 8, ATT_BF16), ATT_E_OVERFLOW, "batch", "batch");
#undef BAD
}

static void test_backward__bad_arguments__refused_and_nothing_written(void **state) {
    const engines *e = *state;
    att_problem p;
    dense(&p, 1, 2, 1, 8, 8, 8, 8, ATT_F32);
    gradients g;
    gradients_open(&g, &p, NULL, 1, 1.0f);
    const att_args good = g.args;
#define BAD(change, status, field)                                                             \
    do {                                                                                       \
        g.args = good;                                                                         \
        change;                                                                                \
        assert_fails(gradients_run(&g, e->ctx[0]), status, field, field);                      \
        for (size_t i = 0; i < g.d_q.bytes; i++)                                               \
            assert_int_equal(g.d_q.data[i], 0xff);                                             \
    } while (0)
    BAD(g.args.q = NULL, ATT_E_ARG, "q");
    BAD(g.args.o = NULL, ATT_E_ARG, "o");
    BAD(g.args.lse = NULL, ATT_E_ARG, "lse");
    BAD(g.args.d_o = NULL, ATT_E_ARG, "d_o");
    BAD(g.args.d_q = NULL, ATT_E_ARG, "d_q");
    BAD(g.args.d_k = NULL, ATT_E_ARG, "d_k");
    BAD(g.args.d_v = NULL, ATT_E_ARG, "d_v");
    BAD(g.args.d_k = g.d_v.data, ATT_E_ALIAS, "d_k");
    BAD(g.args.d_v = g.v.data, ATT_E_ALIAS, "d_v");
    BAD(g.args.d_sinks = (float *)(void *)g.d_q.data, ATT_E_ARG, "d_sinks");
    BAD(g.args.d_alibi = (float *)(void *)g.d_q.data, ATT_E_ARG, "d_alibi");
    BAD(g.args.d_bias = g.d_q.data, ATT_E_ARG, "d_bias");
#undef BAD
    g.args = good;
    assert_ok(gradients_run(&g, e->ctx[0]));
    gradients_close(&g);
}

static void test_backward__explain__names_the_kernel(void **state) {
    const engines *e = *state;
    att_problem p;
    dense(&p, 1, 1, 1, 8, 8, 8, 8, ATT_BF16);
    char text[ATT_EXPLAIN_MAX];
    assert_ok(att_backward_explain(e->ctx[0], &p, text, sizeof text));
    assert_non_null(strstr(text, "chosen   bwd_cpu_portable"));
    assert_null(strstr(text, "fwd_cpu"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backward__sizes_and_types__near_float64),
        cmocka_unit_test(test_backward__masks_and_windows__near_float64),
        cmocka_unit_test(test_backward__scores_shaped__near_float64),
        cmocka_unit_test(test_backward__biases__summed_where_they_are_broadcast),
        cmocka_unit_test(test_backward__bias_of_any_strides__near_float64),
        cmocka_unit_test(test_backward__lengths_vary__near_float64),
        cmocka_unit_test(test_backward__any_strides__padding_untouched),
        cmocka_unit_test(test_backward__hidden_values__reach_no_gradient),
        cmocka_unit_test(test_backward__nan_in_rows_without_keys__reaches_no_gradient),
        cmocka_unit_test(test_backward__nan_in_a_seen_key__reaches_only_rows_that_see_it),
        cmocka_unit_test(test_backward__scores_past_float32__finite),
        cmocka_unit_test(test_backward__huge_and_tiny_d_o__finite),
        cmocka_unit_test(test_backward__workspace__linear_and_within_its_limit),
        cmocka_unit_test(test_backward__bad_problems__refused_by_field),
        cmocka_unit_test(test_backward__bad_arguments__refused_and_nothing_written),
        cmocka_unit_test(test_backward__explain__names_the_kernel),
    };
    return cmocka_run_group_tests(tests, engines_setup, engines_teardown);
}
