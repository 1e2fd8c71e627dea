/* ring.h: causal attention of a sequence that is cut over several ranks, whatever carries the messages between them.
 *
 * The sequence is cut into 2 x ranks pieces. Rank r has piece r and piece 2 x ranks - 1 - r: an early one and a late one,
 * so that all have equally much to compute. K and V go round: in every step a rank sends those that it has to the next
 * rank, and receives those of the rank before, while it computes with what it has. */
#ifndef RING_H
#define RING_H

#include <attest.h>

#include <stdbool.h>

typedef struct ring_shape {
    int ranks;
    int64_t heads_q, heads_kv, d;
    int64_t piece;   /* rows of a piece; a shard has two */
    att_dtype dtype; /* of q, k and v: F32 or BF16; O is float32 */
} ring_shape;

/* Where a rank computes: its context, and memory that the context's device uses. Functions return 0 where they fail. */
typedef struct ring_device {
    att_context *context;
    void *stream; /* of a GPU */
    void *(*allocate)(size_t bytes);
    void (*release)(void *memory);
    bool (*to_device)(void *to, const void *from, size_t bytes);
    bool (*to_host)(void *to, const void *from,
                    size_t bytes); /* after all work on the stream */
} ring_device;

/* How messages travel: start() sends `bytes` to the next rank and receives as many from the one before; work that follows
 * finish() has them. */
typedef struct ring_exchange {
    void *self;
    bool (*start)(void *self, const void *send, void *receive, size_t bytes);
    bool (*finish)(void *self);
} ring_exchange;

/* Floats of a rank's O: (two pieces, heads_q, piece, d). */
size_t ring_o_count(const ring_shape *shape);

/* Computes the rows of `rank` into o, in host memory. All ranks call it. False where something failed: it was printed. */
bool ring_attention(const ring_device *device, const ring_exchange *exchange,
                    const ring_shape *shape, int rank, float *o);

/* Compares the O of all ranks, one behind the other, with one call of attest for the whole sequence: the largest difference, or
 * a negative number where something failed. */
double ring_difference(const ring_device *device, const ring_shape *shape, const float *all);

/* Prints what attest has to say of its latest error. False. */
bool ring_failed(const char *call);

#endif
