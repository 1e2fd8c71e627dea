/* ring_parts.h: what a rank computes in a step of the ring: the part of its rows over the keys
 * of one rank, merged into its result. */
#ifndef RING_PARTS_H
#define RING_PARTS_H

#include "ring.h"

/* By the source of the keys. Rows and keys of a shard are in order, so the causal part of a
 * rank with itself is one call. */
enum { PART_OWN, PART_FROM_EARLIER, PART_FROM_LATER, PART_KINDS };
enum { EARLY, LATE, PIECES };

typedef struct ring_parts {
    const ring_device *device;
    const ring_shape *shape;
    att_plan *plans[PART_KINDS];
    att_plan *merge; /* for the rows of a piece */
    void *workspace;
    /* O and LSE of all rows: the part of the latest step, and two buffers that alternate for
     * the merged result. */
    float *part_o, *part_lse;
    float *merged_o[2], *merged_lse[2];
    int current[PIECES]; /* which of the two currently has a piece's rows */
} ring_parts;

bool ring_parts_create(ring_parts *parts, const ring_device *device, const ring_shape *shape);
void ring_parts_destroy(ring_parts *parts);

/* Add the keys of rank `source`, K before V, for the rows of `rank`. The first call must have
 * source == rank. */
bool ring_parts_add(ring_parts *parts, int rank, int source, const void *q, const void *kv);

/* O of a piece's rows, heads `2 x piece x d` floats apart. */
const float *ring_parts_o(const ring_parts *parts, int piece);

#endif
