/* toy_model.c: numbers by hashing, and the attention formula written out. */
#include "toy_model.h"

#include <math.h>
#include <string.h>

/* Round to nearest, ties to even. */
static uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t hash(uint32_t x) {
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* A number in [-1, 1) with eight bits, which bfloat16 represents exactly. */
static float noise(uint32_t seed, int i) {
    return (float)(hash(seed + (uint32_t)i) >> 24) / 128.0f - 1.0f;
}

static uint32_t seed_of(char what, int layer, int token, int position) {
    return hash(hash(hash((uint32_t)what + 256 * (uint32_t)layer) + (uint32_t)token) +
                (uint32_t)position);
}

void model_key_value(uint16_t *k, uint16_t *v, int layer, int token, int position) {
    const uint32_t seed_k = seed_of('k', layer, token, position);
    const uint32_t seed_v = seed_of('v', layer, token, position);
    for (int i = 0; i < HEADS_KV * D; i++) {
        k[i] = to_bf16(noise(seed_k, i));
        v[i] = to_bf16(noise(seed_v, i));
    }
}

/* Long queries make peaked weights: a few keys matter most, and each of them must be right. */
void model_query(uint16_t *q, int layer, int token, int position, const float *o) {
    const uint32_t seed = seed_of('q', layer, token, position);
    for (int i = 0; i < HEADS_Q * D; i++)
        q[i] = to_bf16(6.0f * noise(seed, i) + (layer > 0 ? o[i] : 0.0f));
}

int model_next(const float *o) {
    uint32_t mixed = 0;
    for (int i = 0; i < HEADS_Q * D; i++)
        mixed = hash(mixed + to_bf16(o[i]));
    return (int)(mixed % VOCABULARY);
}

/* No maximum is subtracted from the scores: they stay below 60, and exp(60) fits in float64. */
double model_error(const uint16_t *q, const float *o, int layer, const int *tokens, int keys) {
    double sum[HEADS_Q] = {0}, row[HEADS_Q][D] = {{0}}, worst = 0.0;
    for (int j = 0; j < keys; j++) {
        uint16_t k[HEADS_KV * D], v[HEADS_KV * D];
        model_key_value(k, v, layer, tokens[j], j);
        for (int h = 0; h < HEADS_Q; h++) {
            const int shared = h / (HEADS_Q / HEADS_KV) * D;
            double dot = 0.0;
            for (int c = 0; c < D; c++)
                dot += (double)from_bf16(q[h * D + c]) * (double)from_bf16(k[shared + c]);
            const double weight = exp(dot / sqrt((double)D));
            sum[h] += weight;
            for (int c = 0; c < D; c++)
                row[h][c] += weight * (double)from_bf16(v[shared + c]);
        }
    }
    for (int h = 0; h < HEADS_Q; h++)
        for (int c = 0; c < D; c++) {
            const double difference = fabs(row[h][c] / sum[h] - (double)o[h * D + c]);
            worst = isnan(difference) ? INFINITY : fmax(worst, difference);
        }
    return worst;
}
