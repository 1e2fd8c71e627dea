/* test_moe_oracle.c: the oracle of mixtures of experts and its plain reference, compared with
 * sums over weights in a plain layout, and with results derived by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "moe/moe.h"
#include "moe/ref/moe_oracle.h"
#include "moe/ref/moe_plain.h"
#include "tests/support/check.h"
#include "tests/support/mixture.h"
#include "tests/support/rng.h"

enum { T = 4, H = 9, I = 7, E = 3, K = 2 };

/* The layer in the form of the formula. */
typedef struct layer {
    double x[T][H], gate[E][I][H], up[E][I][H], down[E][H][I];
    double gate_bias[E][I], up_bias[E][I], down_bias[E][H];
} layer;

static void draw(layer *l) {
    uint64_t random = 5;
    double *all = (double *)l;
    for (size_t n = 0; n < sizeof *l / sizeof *all; n++)
        all[n] = (double)rng_signed(&random);
}

/* The index of the weight from input h to row i of gate (part 0) or up (part 1) in w1, or in
 * w3. */
static int64_t at_w1(const att_moe_problem *p, int part, int64_t e, int64_t i, int64_t h) {
    const att_moe_strides *s = part == 1 && p->gate == ATT_MOE_APART ? &p->w3 : &p->w1;
    const int64_t n = p->gate == ATT_MOE_INTERLEAVED ? 2 * i + part
                      : p->gate == ATT_MOE_APART     ? i
                                                     : part * I + i;
    return e * s->expert + (p->flags & ATT_MOE_TRANSPOSED ? h * s->row + n : n * s->row + h);
}

static void store(mixture *m, const layer *l) {
    const att_moe_problem *p = &m->p;
    const bool apart = p->gate == ATT_MOE_APART;
    float *w1 = (float *)(void *)m->array[MIX_W1].data,
          *w3 = apart ? (float *)(void *)m->array[MIX_W3].data : w1,
          *w2 = (float *)(void *)m->array[MIX_W2].data,
          *b1 = (float *)(void *)m->array[MIX_B1].data,
          *b3 = apart ? (float *)(void *)m->array[MIX_B3].data : b1,
          *b2 = (float *)(void *)m->array[MIX_B2].data;
    for (int64_t e = 0; e < E; e++) {
        for (int64_t i = 0; i < I; i++) {
            const bool turns = p->gate == ATT_MOE_INTERLEAVED;
            b1[e * p->b1_expert + (turns ? 2 * i : i)] = (float)l->gate_bias[e][i];
            b3[e * (apart ? p->b3_expert : p->b1_expert) + (turns   ? 2 * i + 1
                                                            : apart ? i
                                                                    : I + i)] =
                (float)l->up_bias[e][i];
            for (int64_t h = 0; h < H; h++) {
                w1[at_w1(p, 0, e, i, h)] = (float)l->gate[e][i][h];
                w3[at_w1(p, 1, e, i, h)] = (float)l->up[e][i][h];
                w2[e * p->w2.expert +
                   (p->flags & ATT_MOE_TRANSPOSED ? i * p->w2.row + h : h * p->w2.row + i)] =
                    (float)l->down[e][h][i];
            }
        }
        for (int64_t h = 0; h < H; h++)
            b2[e * p->b2_expert + h] = (float)l->down_bias[e][h];
    }
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < H; h++)
            mixture_set_x(m, t, h, (float)l->x[t][h]);
}

/* silu(g) u, summed over the listed experts. */
static double formula(const layer *l, int64_t t, int64_t h, const int32_t *ids,
                      const double *weights) {
    double y = 0.0;
    for (int j = 0; j < K; j++) {
        const int64_t e = ids[j];
        double out = l->down_bias[e][h];
        for (int64_t i = 0; i < I; i++) {
            double g = l->gate_bias[e][i], u = l->up_bias[e][i];
            for (int64_t c = 0; c < H; c++) {
                g += l->gate[e][i][c] * l->x[t][c];
                u += l->up[e][i][c] * l->x[t][c];
            }
            out += l->down[e][h][i] * (g / (1.0 + exp(-g))) * u;
        }
        y += weights[j] * out;
    }
    return y;
}

static void test_oracle__every_storage__the_formula(void **state) {
    layer *l = malloc(sizeof *l);
    (void)state;
    draw(l);
    for (int gate = 0; gate < 3; gate++)
        for (int transposed = 0; transposed < 2; transposed++) {
            att_moe_problem p;
            mixture m;
            att_moe_problem_init(&p, T, H, I, E, K, ATT_F32);
            p.gate = (att_moe_gate)gate;
            p.flags |= transposed ? ATT_MOE_TRANSPOSED : 0;
            p.features = ATT_MOE_BIAS1 | ATT_MOE_BIAS2;
            att_moe_problem_layout(&p);
            mixture_open(&m, &p, 1);
            store(&m, l);
            double *scratch = malloc((size_t)att_moe_ref_scratch(&p) * sizeof *scratch);
            double y[H], weights[K];
            float plain[H], plain_weights[K];
            int32_t ids[K];
            for (int64_t t = 0; t < T; t++) {
                att_moe_ref_token(&p, &m.args, t, scratch, y, ids, weights);
                for (int64_t h = 0; h < H; h++)
                    assert_near(y[h], formula(l, t, h, ids, weights), 1e-12);
                assert_near(weights[0] + weights[1], 1.0, 1e-12);
                assert_true(ids[0] != ids[1]);
                for (int order = 0; order < ATT_MOE_PLAIN_ORDERS; order++) {
                    att_moe_plain_token(&p, &m.args, t, (att_moe_plain_order)order,
                                        (float *)scratch, plain, ids, plain_weights);
                    for (int64_t h = 0; h < H; h++)
                        assert_near((double)plain[h], y[h], 1e-5);
                }
            }
            free(scratch);
            mixture_close(&m);
        }
    free(l);
}

/* One weight of 1 everywhere: y is the activation of x itself. */
static double activated(att_moe_activation act, float x, float alpha, float limit) {
    att_moe_problem p;
    mixture m;
    double scratch[64], y, weight;
    int32_t id;
    att_moe_problem_init(&p, 1, 1, 1, 1, 1, ATT_F32);
    p.activation = act;
    p.alpha = alpha;
    p.limit = limit;
    att_moe_problem_layout(&p);
    mixture_open(&m, &p, 1);
    const float one[] = {1.0f, 1.0f};
    memcpy(m.array[MIX_W1].data, one, m.array[MIX_W1].bytes);
    memcpy(m.array[MIX_W2].data, one, m.array[MIX_W2].bytes);
    mixture_set_x(&m, 0, 0, x);
    assert_true(att_moe_ref_scratch(&p) <= 64);
    att_moe_ref_token(&p, &m.args, 0, scratch, &y, &id, &weight);
    mixture_close(&m);
    return y;
}

/* Values of PyTorch 2.11 in float64: silu, gelu and gelu(approximate="tanh") of 1.5 and -0.75,
 * and GPT-OSS's formula. */
static void test_oracle__activations__known_values(void **state) {
    (void)state;
    assert_near(activated(ATT_MOE_SILU, 1.5f, 0, 0), 1.2263617143, 1e-9);
    assert_near(activated(ATT_MOE_SILU, -0.75f, 0, 0), -0.2406159756, 1e-9);
    assert_near(activated(ATT_MOE_SWIGLU, 1.5f, 0, 0), 1.5 * 1.2263617143, 1e-9);
    assert_near(activated(ATT_MOE_GELU, 1.5f, 0, 0), 1.3997891981, 1e-9);
    assert_near(activated(ATT_MOE_GELU, -0.75f, 0, 0), -0.1699705143, 1e-9);
    assert_near(activated(ATT_MOE_GEGLU, -0.75f, 0, 0), -0.75 * -0.1699705143, 1e-9);
    assert_near(activated(ATT_MOE_GELU_TANH, 1.5f, 0, 0), 1.3995715770, 1e-9);
    assert_near(activated(ATT_MOE_GEGLU_TANH, 1.5f, 0, 0), 1.5 * 1.3995715770, 1e-9);
    assert_near(activated(ATT_MOE_RELU2, 1.5f, 0, 0), 2.25, 1e-12);
    assert_near(activated(ATT_MOE_RELU2, -1.5f, 0, 0), 0.0, 0.0);
    /* within the limits, above both, below the lower one of up alone */
    assert_near(activated(ATT_MOE_SWIGLU_CLAMPED, 1.5f, 1.702f, 7.0f),
                2.5 * 1.5 / (1.0 + exp(-(double)1.702f * 1.5)), 1e-9);
    assert_near(activated(ATT_MOE_SWIGLU_CLAMPED, 9.0f, 1.702f, 7.0f),
                8.0 * 7.0 / (1.0 + exp(-(double)1.702f * 7.0)), 1e-9);
    assert_near(activated(ATT_MOE_SWIGLU_CLAMPED, -3.0f, 0.5f, 2.0f),
                -1.0 * -3.0 / (1.0 + exp(1.5)), 1e-9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle__every_storage__the_formula),
        cmocka_unit_test(test_oracle__activations__known_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
