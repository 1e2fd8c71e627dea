/* test_moe_threads.c: the bits of a token's answer: the same with any number of threads, in
 * every repeat, and with any other tokens. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "tests/support/engines.h"
#include "tests/support/instrumented.h"
#include "tests/support/mixture.h"
#include "tests/support/rng.h"

static const att_dtype types[] = {ATT_F32, ATT_F16, ATT_BF16};

/* Per expert 30, or 10 where the code is instrumented. */
static int64_t some_tokens(void) {
    return is_instrumented() ? 20 : 60;
}

static void init(att_moe_problem *p, int64_t tokens, att_dtype dtype, bool transposed) {
    att_moe_problem_init(p, tokens, 1100, 70, 6, 3, dtype);
    p->features =
        ATT_MOE_IDS | ATT_MOE_WEIGHTS | ATT_MOE_COUNTS | ATT_MOE_BIAS1 | ATT_MOE_BIAS2;
    p->flags |= transposed ? ATT_MOE_TRANSPOSED : 0;
    att_moe_problem_layout(p);
}

static void test_moe__other_threads_and_repeats__same_bits(void **state) {
    const engines *e = *state;
    static const int32_t counts[] = {7, 2, 3, 7};
    const size_t counts_used = is_instrumented() ? 1 : sizeof counts / sizeof counts[0];
    for (int t = 0; t < 3; t++)
        for (int transposed = 0; transposed < 2; transposed++) {
            att_moe_problem p;
            if (is_instrumented() && transposed != t % 2)
                continue;
            mixture one, more;
            init(&p, some_tokens(), types[t], transposed);
            mixture_open(&one, &p, 5);
            mixture_open(&more, &p, 5);
            for (int k = 0; k < e->count; k++) {
                att_context *alone = context_open(e->isa[k], 1);
                assert_ok(mixture_run(&one, alone));
                mixture_check(&one);
                att_context_destroy(alone);
                for (size_t n = 0; n < counts_used; n++) {
                    att_context *ctx = context_open(e->isa[k], counts[n]);
                    assert_ok(mixture_run(&more, ctx));
                    att_context_destroy(ctx);
                    for (int i = MIX_Y; i <= MIX_COUNTS; i++)
                        assert_memory_equal(more.array[i].data, one.array[i].data,
                                            one.array[i].bytes);
                }
            }
            mixture_close(&one);
            mixture_close(&more);
        }
}

/* Change x and the experts of all tokens but some: the answers of those keep their bits. */
static void test_moe__other_tokens_change__same_bits(void **state) {
    const engines *e = *state;
    for (int t = 0; t < 3; t++)
        for (int transposed = 0; transposed < 2; transposed++) {
            att_moe_problem p;
            if (is_instrumented() && transposed != t % 2)
                continue;
            mixture before, after;
            init(&p, some_tokens(), types[t], transposed);
            mixture_open(&before, &p, 9);
            mixture_open(&after, &p, 9);
            uint64_t random = 1;
            for (int64_t token = 0; token < p.tokens; token++) {
                if (token % 13 == 4)
                    continue;
                for (int64_t c = 0; c < p.hidden; c++)
                    mixture_set_x(&after, token, c,
                                  token == 3 ? NAN : 2.0f * rng_signed(&random));
                for (int64_t x = 0; x < p.experts; x++) /* most to expert 5 */
                    mixture_set_logit(&after, token, x, rng_signed(&random) + (float)(x == 5));
            }
            for (int k = 0; k < e->count; k++) {
                assert_ok(mixture_run(&before, e->ctx[k]));
                assert_ok(mixture_run(&after, e->ctx[k]));
                for (int64_t token = 4; token < p.tokens; token += 13)
                    assert_true(mixture_same_row(&before, token, &after, token));
                assert_false(mixture_same_row(&before, 5, &after, 5));
            }
            mixture_close(&before);
            mixture_close(&after);
        }
}

/* On the CPU the number of tokens does not matter either: a token alone has the same bits as
 * among many. */
static void test_moe__alone_or_among_many__same_bits(void **state) {
    const engines *e = *state;
    for (int t = 0; t < 3; t++)
        for (int transposed = 0; transposed < 2; transposed++) {
            att_moe_problem p, single;
            if (is_instrumented() && transposed != t % 2)
                continue;
            mixture many, one;
            init(&p, some_tokens() + 1, types[t], transposed);
            init(&single, 1, types[t], transposed);
            mixture_open(&many, &p, 11);
            mixture_open(&one, &single, 11);
            for (int i = MIX_W1; i <= MIX_B3; i++)
                memcpy(one.array[i].data, many.array[i].data, one.array[i].bytes);
            for (int k = 0; k < e->count; k++) {
                assert_ok(mixture_run(&many, e->ctx[k]));
                for (int64_t token = 0; token < p.tokens; token += 12) {
                    for (int64_t c = 0; c < p.hidden; c++)
                        mixture_set_x(&one, 0, c,
                                      att_load(many.args.x, p.dtype, token * p.x_row + c));
                    for (int64_t x = 0; x < p.experts; x++)
                        mixture_set_logit(
                            &one, 0, x,
                            att_load(many.args.logits, ATT_F32, token * p.logits_row + x));
                    assert_ok(mixture_run(&one, e->ctx[k]));
                    assert_true(mixture_same_row(&one, 0, &many, token));
                }
            }
            mixture_close(&many);
            mixture_close(&one);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moe__other_threads_and_repeats__same_bits),
        cmocka_unit_test(test_moe__other_tokens_change__same_bits),
        cmocka_unit_test(test_moe__alone_or_among_many__same_bits),
    };
    return cmocka_run_group_tests(tests, engines_setup, engines_teardown);
}
