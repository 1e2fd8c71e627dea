/* ring.h: causal attention of a sequence that is split over several ranks, with any transport
 * for the messages.
 *
 * The sequence is split into 2 x ranks pieces. Rank r has pieces r and 2 x ranks - 1 - r: an
 * early one and a late one, so that all ranks have the same work. K and V go round: in every
 * step a rank sends the ones it has to the next rank and receives those of the previous rank,
 * while it computes with the ones it has. */
#ifndef RING_H
#define RING_H

#include <attest.h>

#include <stdbool.h>

typedef struct ring_shape {
    int ranks;
    int64_t heads_q, heads_kv, d;
    int64_t piece;   /* rows per piece; a shard has two pieces */
    att_dtype dtype; /* of q, k and v: F32 or BF16; O is float32 */
} ring_shape;

/* Where a rank computes: its context, and memory for the context's device. Functions return 0
 * on failure. */
typedef struct ring_device {
    att_context *context;
    void *stream; /* of a GPU */
    void *(*allocate)(size_t bytes);
    void (*release)(void *memory);
    bool (*to_device)(void *to, const void *from, size_t bytes);
    bool (*to_host)(void *to, const void *from,
                    size_t bytes); /* after all work on the stream */
} ring_device;

/* How messages travel: start() sends `bytes` to the next rank and receives as many from the
 * previous one; after finish() the received data may be used. */
typedef struct ring_exchange {
    void *self;
    bool (*start)(void *self, const void *send, void *receive, size_t bytes);
    bool (*finish)(void *self);
} ring_exchange;

/* The number of floats of a rank's O: (two pieces, heads_q, piece, d). */
size_t ring_o_count(const ring_shape *shape);

/* Compute the rows of `rank` into o, in host memory. All ranks call it. False on failure, after
 * printing the error. */
bool ring_attention(const ring_device *device, const ring_exchange *exchange,
                    const ring_shape *shape, int rank, float *o);

/* Compare the O of all ranks, one after the other, with one call of attest for the whole
 * sequence: the largest difference, or a negative number on failure. */
double ring_difference(const ring_device *device, const ring_shape *shape, const float *all);

/* Print the last error of attest. Returns false. */
bool ring_failed(const char *call);

#endif
