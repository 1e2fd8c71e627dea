/* ring.c: the steps of the ring, and the check against one call. Every rank makes its own rows
 * of the sequence. */
#include "ring_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V };

bool ring_failed(const char *call) {
    const att_error *error = att_last_error();
    fprintf(stderr, "%s: %s, %s\n", call, att_status_name(error->status), error->text);
    return false;
}

size_t ring_o_count(const ring_shape *s) {
    return (size_t)(PIECES * s->heads_q * s->piece * s->d);
}

/* -------------------------------------------------------------------------------- the data */

/* A reproducible number between -1 and 1. */
static float number(int tensor, int64_t head, int64_t row, int64_t column) {
    uint64_t x = (uint64_t)(((row * 64 + head) * 256 + column) * 3 + tensor) + 1;
    x *= 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (float)(int64_t)(x ^ x >> 32) / 0x1p63f;
}

static void put(void *array, size_t i, float value, att_dtype dtype) {
    if (dtype == ATT_F32) {
        ((float *)array)[i] = value;
        return;
    }
    uint32_t bits; /* bfloat16: the upper half, rounded to even */
    memcpy(&bits, &value, sizeof bits);
    ((uint16_t *)array)[i] = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* Fill (heads, rows, d) in device memory with the rows of a rank, or of the whole sequence for
 * rank -1. `before`: elements to skip. */
static bool fill(void *to, size_t before, const ring_device *device, const ring_shape *s,
                 int rank, int tensor) {
    const int64_t heads = tensor == Q ? s->heads_q : s->heads_kv;
    const int64_t pieces = 2 * s->ranks,
                  rows = rank < 0 ? pieces * s->piece : PIECES * s->piece;
    const size_t element = att_dtype_size(s->dtype), count = (size_t)(heads * rows * s->d);
    void *made = malloc(count * element);
    if (!made)
        return false;
    for (int64_t head = 0; head < heads; head++)
        for (int64_t i = 0; i < rows; i++) {
            const int64_t row = rank < 0       ? i
                                : i < s->piece ? rank * s->piece + i
                                               : (pieces - 1 - rank) * s->piece + i - s->piece;
            for (int64_t c = 0; c < s->d; c++)
                put(made, (size_t)((head * rows + i) * s->d + c),
                    (tensor == V ? 1 : 2) * number(tensor, head, row, c), s->dtype);
        }
    const bool done = device->to_device((char *)to + before * element, made, count * element);
    free(made);
    return done;
}

/* -------------------------------------------------------------------------------- the ring */

static bool run_steps(ring_parts *parts, const ring_exchange *exchange, int rank, const void *q,
                      void *const both[2], size_t bytes) {
    const int ranks = parts->shape->ranks;
    for (int step = 0; step < ranks; step++) {
        const int source = (rank - step + ranks) % ranks;
        const void *here = both[step % 2];
        const bool is_last = step + 1 == ranks;
        if (!is_last && !exchange->start(exchange->self, here, both[(step + 1) % 2], bytes))
            return false;
        if (!ring_parts_add(parts, rank, source, q, here))
            return false;
        if (!is_last && !exchange->finish(exchange->self))
            return false;
    }
    return true;
}

static bool read_o(const ring_parts *parts, float *o) {
    const ring_shape *s = parts->shape;
    const size_t count = (size_t)(s->piece * s->d);
    for (int piece = 0; piece < PIECES; piece++)
        for (int64_t head = 0; head < s->heads_q; head++, o += count)
            if (!parts->device->to_host(
                    o, ring_parts_o(parts, piece) + head * PIECES * s->piece * s->d,
                    count * sizeof *o))
                return false;
    return true;
}

bool ring_attention(const ring_device *device, const ring_exchange *exchange,
                    const ring_shape *s, int rank, float *o) {
    const size_t element = att_dtype_size(s->dtype);
    const size_t rows = (size_t)(PIECES * s->piece * s->d), of_k = rows * (size_t)s->heads_kv;
    void *const q = device->allocate(rows * (size_t)s->heads_q * element);
    void *const both[] = {device->allocate(2 * of_k * element),
                          device->allocate(2 * of_k * element)};
    ring_parts parts;
    const bool done = ring_parts_create(&parts, device, s) && q && both[0] && both[1] &&
                      fill(q, 0, device, s, rank, Q) && fill(both[0], 0, device, s, rank, K) &&
                      fill(both[0], of_k, device, s, rank, V) &&
                      run_steps(&parts, exchange, rank, q, both, 2 * of_k * element) &&
                      read_o(&parts, o);
    ring_parts_destroy(&parts);
    void *const memory[] = {q, both[0], both[1]};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i])
            device->release(memory[i]);
    return done;
}

/* ------------------------------------------------------------------------------- one call */

static bool one_call(const ring_device *device, const ring_shape *s, float *o) {
    const int64_t rows = 2 * s->ranks * s->piece;
    const size_t of_q = (size_t)(s->heads_q * rows * s->d),
                 of_k = (size_t)(s->heads_kv * rows * s->d);
    const size_t element = att_dtype_size(s->dtype);
    att_plan *plan;
    att_problem p;
    att_problem_init(&p, 1, s->heads_q, s->heads_kv, rows, rows, s->d, s->d, s->dtype);
    att_problem_layout_bhsd(&p);
    p.dtype_o = ATT_F32;
    p.causal = ATT_CAUSAL_TOP_LEFT;
    if (att_plan_create(&plan, device->context, &p) != ATT_OK)
        return ring_failed("att_plan_create");
    void *const memory[] = {device->allocate(of_q * element), device->allocate(of_k * element),
                            device->allocate(of_k * element),
                            device->allocate(of_q * sizeof *o),
                            device->allocate(att_plan_workspace(plan) + 1)};
    enum { MEMORIES = sizeof memory / sizeof *memory };
    bool done = true;
    for (int i = 0; i < MEMORIES; i++)
        done = done && memory[i];
    for (int tensor = Q; tensor <= V; tensor++)
        done = done && fill(memory[tensor], 0, device, s, -1, tensor);
    const att_args args = {
        .size = sizeof args, .q = memory[Q], .k = memory[K], .v = memory[V], .o = memory[3]};
    if (done && att_plan_run(plan, &args, memory[4], device->stream) != ATT_OK)
        done = ring_failed("att_plan_run");
    done = done && device->to_host(o, memory[3], of_q * sizeof *o);
    for (int i = 0; i < MEMORIES; i++)
        if (memory[i])
            device->release(memory[i]);
    att_plan_destroy(plan);
    return done;
}

double ring_difference(const ring_device *device, const ring_shape *s, const float *all) {
    const int64_t rows = 2 * s->ranks * s->piece;
    float *o = malloc((size_t)s->ranks * ring_o_count(s) * sizeof *o);
    double worst = 0;
    if (!o || !one_call(device, s, o)) {
        free(o);
        return -1;
    }
    for (int rank = 0; rank < s->ranks; rank++)
        for (int piece = 0; piece < PIECES; piece++)
            for (int64_t head = 0; head < s->heads_q; head++) {
                const int64_t place = piece == EARLY ? rank : 2 * s->ranks - 1 - rank;
                const float *wanted = o + (head * rows + place * s->piece) * s->d;
                for (int64_t i = 0; i < s->piece * s->d; i++) {
                    const double off = fabs((double)*all++ - (double)wanted[i]);
                    worst = isnan(off) ? HUGE_VAL : fmax(worst, off);
                }
            }
    free(o);
    return worst;
}
