/* plain_peer.c: a complete plug-in for attest_peer.h: single-threaded float32 attention in C.
 *
 *     make                         (or: cc -O2 -shared -fPIC -o plain_peer.so plain_peer.c -lm)
 *     attest verify b1h4s128d64,f32,causal --peer ./plain_peer.so
 *     attest bench  b1h4s128d64,f32,causal --peer ./plain_peer.so
 *
 * To adapt it: declare in supports() what your kernel accepts, and call it in run(). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attest_peer.h"

/* Made by prepare(): here the problem is all that is needed. */
typedef struct ready {
    att_problem p;
} ready;

/* A refusal names the field: the user of --peer reads it. */
static int refuse(char *why, size_t n, const char *text) {
    snprintf(why, n, "%s", text);
    return 0;
}

static int supports(const att_problem *p, const att_peer_device *device, char *why, size_t n) {
    (void)device; /* the table below says that only the CPU is supported */
    if (p->dtype != ATT_F32 || p->dtype_o != ATT_F32)
        return refuse(why, n, "dtype: float32 only");
    if (p->features & ~(uint32_t)ATT_LSE)
        return refuse(why, n, "features: LSE only");
    if (p->window_left >= 0 || p->window_right >= 0)
        return refuse(why, n, "window: none");
    if (p->softcap != 0.0f)
        return refuse(why, n, "softcap: none");
    return 1;
}

static int prepare(void **state, const att_problem *p, const att_peer_device *device, char *why,
                   size_t n) {
    (void)device;
    ready *r = malloc(sizeof *r);
    if (!r) {
        snprintf(why, n, "no memory");
        return 1;
    }
    r->p = *p;
    *state = r;
    return 0;
}

/* The scores of one row. */
static size_t workspace(const void *state) {
    const ready *r = state;
    return (size_t)r->p.seq_k * sizeof(float);
}

static const float *row_of(const void *base, const att_strides *s, int64_t b, int64_t h,
                           int64_t i) {
    return (const float *)base + b * s->batch + h * s->head + i * s->row;
}

/* Row i sees keys 0 .. visible-1. */
static int64_t visible(const att_problem *p, int64_t i) {
    int64_t last = p->seq_k;
    if (p->causal == ATT_CAUSAL_TOP_LEFT)
        last = i + 1;
    if (p->causal == ATT_CAUSAL_BOTTOM_RIGHT)
        last = i + 1 + p->seq_k - p->seq_q;
    return last < 0 ? 0 : last > p->seq_k ? p->seq_k : last;
}

static void attend(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                   float *score) {
    const int64_t h_kv = h / (p->heads_q / p->heads_kv), keys = visible(p, i);
    const float *q = row_of(a->q, &p->q, b, h, i);
    float *o = (float *)a->o + b * p->o.batch + h * p->o.head + i * p->o.row;
    float top = -INFINITY, sum = 0.0f;
    for (int64_t j = 0; j < keys; j++) {
        const float *k = row_of(a->k, &p->k, b, h_kv, j);
        float dot = 0.0f;
        for (int64_t c = 0; c < p->d_qk; c++)
            dot += q[c] * k[c];
        score[j] = dot * p->scale;
        top = fmaxf(top, score[j]);
    }
    for (int64_t c = 0; c < p->d_v; c++)
        o[c] = 0.0f; /* also the answer for a row that sees no key */
    for (int64_t j = 0; j < keys; j++) {
        const float *v = row_of(a->v, &p->v, b, h_kv, j);
        const float weight = expf(score[j] - top);
        sum += weight;
        for (int64_t c = 0; c < p->d_v; c++)
            o[c] += weight * v[c];
    }
    for (int64_t c = 0; keys > 0 && c < p->d_v; c++)
        o[c] /= sum;
    if (p->features & ATT_LSE)
        a->lse[b * p->lse.batch + h * p->lse.head + i * p->lse.row] = top + logf(sum);
}

static int run(void *state, const att_args *args, void *scratch, void *stream, char *why,
               size_t n) {
    const att_problem *p = &((ready *)state)->p;
    (void)stream, (void)why, (void)n;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < p->seq_q; i++)
                attend(p, args, b, h, i, scratch);
    return 0;
}

static void destroy(void *state) {
    free(state);
}

static const att_peer table = {
    .abi = ATT_PEER_ABI,
    .devices = ATT_PEER_CPU,
    .size = sizeof table,
    .name = "plain",
    .version = "1, one thread",
    .supports = supports,
    .prepare = prepare,
    .workspace = workspace,
    .run = run,
    .destroy = destroy,
};

const att_peer *att_peer_get(void) {
    return &table;
}
