/* test_backward_threads.c: gradients on several threads: tasks that take turns at d_q, and the
 * same bits with any number of threads. */
#include <string.h>

#include "tests/support/engines.h"
#include "tests/support/gradients.h"
#include "tests/support/instrumented.h"

static const att_dtype types[] = {ATT_F32, ATT_F16, ATT_BF16};

static void dense(att_problem *p, int64_t batch, int64_t heads_q, int64_t heads_kv,
                  int64_t seq_q, int64_t seq_k, int64_t d_qk, int64_t d_v, att_dtype dtype) {
    att_problem_init(p, batch, heads_q, heads_kv, seq_q, seq_k, d_qk, d_v, dtype);
    p->features = ATT_LSE;
}

/* One bias for every batch entry and head. */
static void add_shared_bias(att_problem *p) {
    p->features |= ATT_BIAS;
    p->gradients |= ATT_D_BIAS;
    p->bias_dtype = ATT_F32;
    p->bias = p->grad_bias = (att_strides){.batch = 0, .head = 0, .row = p->seq_k, .col = 1};
}

static void test_backward__other_threads_and_repeats__same_bits(void **state) {
    const engines *e = *state;
    static const int32_t counts[] = {3, 2, 7};
    const int counts_used = is_instrumented() ? 1 : 3;
    for (int t = 0; t < 3; t++)
        for (int kind = 0; kind < 2; kind++) {
            att_problem p;
            if (is_instrumented() && kind != t % 2)
                continue;
            dense(&p, 1, 2, 1, 290, 500, 24, 16, types[t]);
            p.causal = kind ? ATT_CAUSAL_BOTTOM_RIGHT : ATT_CAUSAL_NONE;
            p.align = kind ? ATT_ALIGN_UNSET : ATT_ALIGN_TOP_LEFT;
            p.features |= ATT_ALIBI | ATT_SINKS;
            p.gradients = ATT_D_ALIBI | ATT_D_SINKS;
            if (kind)
                add_shared_bias(&p);
            gradients one, more;
            gradients_open(&one, &p, NULL, 1100, 1.0f);
            gradients_open(&more, &p, NULL, 1100, 1.0f);
            for (int k = 0; k < e->count; k++) {
                att_context *alone = context_open(e->isa[k], 1);
                assert_ok(gradients_run(&one, alone));
                gradients_check(&one, gradients_unit(&p));
                att_context_destroy(alone);
                for (int n = 0; n < counts_used; n++) {
                    att_context *ctx = context_open(e->isa[k], counts[n]);
                    assert_ok(gradients_run(&more, ctx));
                    att_context_destroy(ctx);
                    assert_memory_equal(more.d_q.data, one.d_q.data, one.d_q.bytes);
                    assert_memory_equal(more.d_k.data, one.d_k.data, one.d_k.bytes);
                    assert_memory_equal(more.d_v.data, one.d_v.data, one.d_v.bytes);
                    assert_memory_equal(more.d_bias.data, one.d_bias.data, one.d_bias.bytes);
                    assert_memory_equal(more.d_alibi.data, one.d_alibi.data, one.d_alibi.bytes);
                    assert_memory_equal(more.d_sinks.data, one.d_sinks.data, one.d_sinks.bytes);
                }
            }
            gradients_close(&one);
            gradients_close(&more);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backward__other_threads_and_repeats__same_bits),
    };
    return cmocka_run_group_tests(tests, engines_setup, engines_teardown);
}
