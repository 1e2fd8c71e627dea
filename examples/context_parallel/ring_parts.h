/* ring_parts.h: what a rank computes in a step of the ring: the part of its rows over the keys of one rank, merged into what it has. */
#ifndef RING_PARTS_H
#define RING_PARTS_H

#include "ring.h"

/* By where the keys come from. Rows and keys of a shard stand in their order, so the causal part of a rank with itself is one call. */
enum { PART_OWN, PART_FROM_EARLIER, PART_FROM_LATER, PART_KINDS };
enum { EARLY, LATE, PIECES };

typedef struct ring_parts {
    const ring_device *device;
    const ring_shape *shape;
    att_plan *plans[PART_KINDS];
    att_plan *merge; /* of the rows of a piece */
    void *workspace;
    /* O and LSE of all rows: what the latest step found, and two that hold what is merged by turns. */
    float *part_o, *part_lse;
    float *merged_o[2], *merged_lse[2];
    int current[PIECES]; /* which of the two has a piece's rows now */
} ring_parts;

bool ring_parts_create(ring_parts *parts, const ring_device *device, const ring_shape *shape);
void ring_parts_destroy(ring_parts *parts);

/* The keys of rank `source`, K before V, for the rows of `rank`. The first call has source == rank. */
bool ring_parts_add(ring_parts *parts, int rank, int source, const void *q, const void *kv);

/* O of a piece's rows, heads `2 x piece x d` floats apart. */
const float *ring_parts_o(const ring_parts *parts, int piece);

#endif
