/* test_backward_packed.c: gradients of Q, K and V in one buffer: interleaved rows are accepted,
 * overlapping rows are refused. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/support/engines.h"

enum { BATCH = 2, HEADS_Q = 4, HEADS_KV = 2, ROWS = 5, D = 8, D_V = 6 };
enum { WIDTH = HEADS_Q * D + HEADS_KV * D + HEADS_KV * D_V, VALUES = BATCH * ROWS * WIDTH };

/* q, k and v packed, d_q, d_k and d_v too; o and d_o (batch, seq, heads, d). */
typedef struct packed {
    att_problem p;
    att_args args;
    int64_t k_offset, v_offset;
    float qkv[VALUES], grads[VALUES + WIDTH], apart[VALUES];
    float o[BATCH * ROWS * HEADS_Q * D_V], d_o[BATCH * ROWS * HEADS_Q * D_V];
    float lse[BATCH * HEADS_Q * ROWS];
} packed;

static void make(packed *g) {
    memset(g, 0, sizeof *g);
    att_problem_init(&g->p, BATCH, HEADS_Q, HEADS_KV, ROWS, ROWS, D, D_V, ATT_F32);
    att_problem_layout_packed(&g->p, &g->k_offset, &g->v_offset);
    g->p.features = ATT_LSE;
    for (int i = 0; i < VALUES; i++)
        g->qkv[i] = (float)((i * 37) % 23) / 11.0f - 1.0f;
    for (int i = 0; i < BATCH * ROWS * HEADS_Q * D_V; i++)
        g->d_o[i] = (float)((i * 29) % 19) / 9.0f - 1.0f;
    g->args = (att_args){.size = sizeof g->args,
                         .q = g->qkv,
                         .k = g->qkv + g->k_offset,
                         .v = g->qkv + g->v_offset,
                         .o = g->o,
                         .lse = g->lse,
                         .d_o = g->d_o,
                         .d_q = g->grads,
                         .d_k = g->grads + g->k_offset,
                         .d_v = g->grads + g->v_offset};
}

static att_status run(const packed *g, att_context *ctx) {
    att_plan *plan = NULL;
    assert_ok(att_backward_plan_create(&plan, ctx, &g->p));
    const size_t bytes = att_plan_workspace(plan);
    void *workspace = aligned_alloc(ATT_WORKSPACE_ALIGN, bytes ? bytes : ATT_WORKSPACE_ALIGN);
    assert_non_null(workspace);
    const att_status status = att_backward_run(plan, &g->args, workspace, NULL);
    free(workspace);
    att_plan_destroy(plan);
    return status;
}

static void forward(packed *g, att_context *ctx) {
    att_plan *plan = NULL;
    att_args args = g->args;
    args.d_o = NULL;
    args.d_q = args.d_k = args.d_v = NULL;
    assert_ok(att_plan_create(&plan, ctx, &g->p));
    const size_t bytes = att_plan_workspace(plan);
    void *workspace = aligned_alloc(ATT_WORKSPACE_ALIGN, bytes ? bytes : ATT_WORKSPACE_ALIGN);
    assert_non_null(workspace);
    assert_ok(att_plan_run(plan, &args, workspace, NULL));
    free(workspace);
    att_plan_destroy(plan);
}

/* The same numbers as with three buffers. */
static void test_packed__one_buffer__as_three(void **state) {
    (void)state;
    att_context *ctx = context_open(ATT_ISA_AUTO, 2);
    packed *one = malloc(sizeof *one), *three = malloc(sizeof *three);
    assert_true(one && three);
    make(one);
    forward(one, ctx);
    *three = *one;
    three->args = one->args;
    three->args.d_q = three->grads;
    three->p.grad_k = (att_strides){ROWS * HEADS_KV * D, D, HEADS_KV * D, 1};
    three->p.grad_v = (att_strides){ROWS * HEADS_KV * D_V, D_V, HEADS_KV * D_V, 1};
    float *d_k = three->apart, *d_v = three->apart + BATCH * ROWS * HEADS_KV * D;
    three->args.d_k = d_k;
    three->args.d_v = d_v;
    assert_ok(run(one, ctx));
    assert_ok(run(three, ctx));
    for (int row = 0; row < BATCH * ROWS; row++) {
        const float *at = one->grads + row * WIDTH;
        assert_memory_equal(at, three->grads + row * WIDTH, HEADS_Q * D * sizeof(float));
        assert_memory_equal(at + one->k_offset, d_k + row * HEADS_KV * D,
                            HEADS_KV * D * sizeof(float));
        assert_memory_equal(at + one->v_offset, d_v + row * HEADS_KV * D_V,
                            HEADS_KV * D_V * sizeof(float));
    }
    free(one);
    free(three);
    att_context_destroy(ctx);
}

/* Rows that overlap by one element, on either side, and rows that are not interleaved in the
 * same way. */
static void test_packed__rows_that_meet__refused(void **state) {
    (void)state;
    att_context *ctx = context_open(ATT_ISA_AUTO, 1);
    packed *g = malloc(sizeof *g);
    assert_non_null(g);
#define BAD(change, field)                                                                     \
    do {                                                                                       \
        make(g);                                                                               \
        change;                                                                                \
        assert_fails(run(g, ctx), ATT_E_ALIAS, field, "overlaps");                             \
        for (int i = 0; i < VALUES; i++)                                                       \
            assert_true(g->grads[i] == 0.0f);                                                  \
    } while (0)
    BAD(g->args.d_k = g->grads + g->k_offset - 1, "d_q");
    BAD(g->args.d_k = g->grads + g->k_offset + 1, "d_k");
    BAD(g->args.d_v = g->grads + g->v_offset + 1, "d_q");
    BAD(g->args.d_k = g->grads, "d_q");
    BAD(g->args.d_k = g->grads + WIDTH, "d_q");
    BAD(g->p.grad_k.row = HEADS_KV * D, "d_q");
    BAD(g->p.grad_k.batch += 1, "d_q");
    BAD(g->args.o = g->grads, "d_q");
#undef BAD
    free(g);
    att_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed__one_buffer__as_three),
        cmocka_unit_test(test_packed__rows_that_meet__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
