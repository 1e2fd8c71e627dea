/* ring_parts.c: three plans suffice for every step. A row sees all or nothing of another rank's
 * piece: of an earlier rank, all rows see the early piece; of a later rank, the late rows see
 * both. */
#include "ring_parts.h"

#include <stdio.h>
#include <string.h>

/* (heads, two pieces, d): the strides of every array of a shard. */
static att_strides strides_of_shard(const ring_shape *s) {
    return (att_strides){0, PIECES * s->piece * s->d, s->d, 1};
}

static bool create_part(ring_parts *parts, int kind, size_t *workspace) {
    const ring_shape *s = parts->shape;
    const int64_t rows = kind == PART_FROM_LATER ? s->piece : PIECES * s->piece;
    const int64_t keys = kind == PART_FROM_EARLIER ? s->piece : PIECES * s->piece;
    att_problem p;
    att_problem_init(&p, 1, s->heads_q, s->heads_kv, rows, keys, s->d, s->d, s->dtype);
    p.q = p.k = p.v = p.o = strides_of_shard(s);
    p.lse = (att_strides){0, PIECES * s->piece, 1, 0};
    p.dtype_o = ATT_F32; /* so that merging rounds nothing */
    p.features |= ATT_LSE;
    p.causal = kind == PART_OWN ? ATT_CAUSAL_TOP_LEFT : ATT_CAUSAL_NONE;
    if (att_plan_create(&parts->plans[kind], parts->device->context, &p) != ATT_OK)
        return ring_failed("att_plan_create");
    const size_t bytes = att_plan_workspace(parts->plans[kind]);
    *workspace = bytes > *workspace ? bytes : *workspace;
    return true;
}

static bool create_merge(ring_parts *parts, size_t *workspace) {
    const ring_shape *s = parts->shape;
    att_merge_problem p;
    att_merge_problem_init(&p, 2, 1, s->heads_q, s->piece, s->d, ATT_F32);
    p.part_o = p.o = strides_of_shard(s);
    p.part_lse = p.lse = (att_strides){0, PIECES * s->piece, 1, 0};
    if (att_merge_plan_create(&parts->merge, parts->device->context, &p) != ATT_OK)
        return ring_failed("att_merge_plan_create");
    const size_t bytes = att_plan_workspace(parts->merge);
    *workspace = bytes > *workspace ? bytes : *workspace;
    return true;
}

bool ring_parts_create(ring_parts *parts, const ring_device *device, const ring_shape *shape) {
    const size_t lse = (size_t)(shape->heads_q * PIECES * shape->piece) * sizeof(float);
    const size_t o = lse * (size_t)shape->d;
    size_t workspace = 0;
    *parts = (ring_parts){.device = device, .shape = shape};
    for (int kind = 0; kind < PART_KINDS; kind++)
        if (!create_part(parts, kind, &workspace))
            return false;
    if (!create_merge(parts, &workspace))
        return false;
    parts->workspace = device->allocate(workspace + 1);
    parts->part_o = device->allocate(o);
    parts->part_lse = device->allocate(lse);
    bool is_there = parts->workspace && parts->part_o && parts->part_lse;
    for (int i = 0; i < 2; i++) {
        parts->merged_o[i] = device->allocate(o);
        parts->merged_lse[i] = device->allocate(lse);
        is_there = is_there && parts->merged_o[i] && parts->merged_lse[i];
    }
    if (!is_there)
        fprintf(stderr, "no memory for the parts\n");
    return is_there;
}

void ring_parts_destroy(ring_parts *parts) {
    void *const memory[] = {parts->workspace,    parts->part_o,      parts->part_lse,
                            parts->merged_o[0],  parts->merged_o[1], parts->merged_lse[0],
                            parts->merged_lse[1]};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i])
            parts->device->release(memory[i]);
    for (int kind = 0; kind < PART_KINDS; kind++)
        att_plan_destroy(parts->plans[kind]);
    att_plan_destroy(parts->merge);
}

/* Merge the latest part into the rows of a piece. */
static bool merge_piece(ring_parts *parts, int piece) {
    const ring_shape *s = parts->shape;
    const int from = parts->current[piece], to = 1 - from;
    const int64_t at_lse = piece * s->piece, at_o = at_lse * s->d;
    const void *const o[] = {parts->merged_o[from] + at_o, parts->part_o + at_o};
    const float *const lse[] = {parts->merged_lse[from] + at_lse, parts->part_lse + at_lse};
    const att_merge_args args = {.size = sizeof args,
                                 .part_o = o,
                                 .part_lse = lse,
                                 .o = parts->merged_o[to] + at_o,
                                 .lse = parts->merged_lse[to] + at_lse};
    parts->current[piece] = to;
    return att_merge_run(parts->merge, &args, parts->workspace, parts->device->stream) ==
               ATT_OK ||
           ring_failed("att_merge_run");
}

bool ring_parts_add(ring_parts *parts, int rank, int source, const void *q, const void *kv) {
    const ring_shape *s = parts->shape;
    const int kind = source == rank  ? PART_OWN
                     : source < rank ? PART_FROM_EARLIER
                                     : PART_FROM_LATER;
    const int first = kind == PART_FROM_LATER ? LATE : EARLY; /* of the pieces of rows */
    const int64_t at_lse = first * s->piece, at_o = at_lse * s->d;
    const size_t of_k =
        (size_t)(s->heads_kv * PIECES * s->piece * s->d) * att_dtype_size(s->dtype);
    float *o = kind == PART_OWN ? parts->merged_o[0] : parts->part_o;
    float *lse = kind == PART_OWN ? parts->merged_lse[0] : parts->part_lse;
    const att_args args = {.size = sizeof args,
                           .q = (const char *)q + (size_t)at_o * att_dtype_size(s->dtype),
                           .k = kv,
                           .v = (const char *)kv + of_k,
                           .o = o + at_o,
                           .lse = lse + at_lse};
    if (att_plan_run(parts->plans[kind], &args, parts->workspace, parts->device->stream) !=
        ATT_OK)
        return ring_failed("att_plan_run");
    if (kind == PART_OWN) {
        memset(parts->current, 0, sizeof parts->current);
        return true;
    }
    for (int piece = first; piece < PIECES; piece++)
        if (!merge_piece(parts, piece))
            return false;
    return true;
}

const float *ring_parts_o(const ring_parts *parts, int piece) {
    return parts->merged_o[parts->current[piece]] +
           piece * parts->shape->piece * parts->shape->d;
}
