/* toy_model.h: replaces the model around the attention: numbers computed from tokens.
 *
 * K and V of a token depend on the token, its position and the layer; Q also depends on the
 * output of the previous layer, and the next token on the output of the last one. So an
 * attention that reads a wrong page is noticed, and the cache can be checked without inspecting
 * it. */
#ifndef TOY_MODEL_H
#define TOY_MODEL_H

#include <stdint.h>

enum { LAYERS = 2, HEADS_Q = 8, HEADS_KV = 2, D = 64, VOCABULARY = 1000 };

/* One token in one layer, bfloat16: k and v (HEADS_KV, D), q (HEADS_Q, D). `o` is the output
 * row of the previous layer; layer 0 ignores it. */
void model_key_value(uint16_t *k, uint16_t *v, int layer, int token, int position);
void model_query(uint16_t *q, int layer, int token, int position, const float *o);

/* The next token, from the last layer's row. */
int model_next(const float *o);

/* How far `o` is from the attention of q over tokens[0 .. keys-1], computed by the formula in
 * float64 with recomputed K and V: the largest absolute difference, infinite for NaN. */
double model_error(const uint16_t *q, const float *o, int layer, const int *tokens, int keys);

#endif
