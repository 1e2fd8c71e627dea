/* plan_ranks.h: a sequence split over several devices: the compute and communication times of
 * each way of attest.torch.parallel.
 *
 * A model, not a measurement: docs/parallel.md describes what it includes. Thread: safe. */
#ifndef LAB_PLAN_RANKS_H
#define LAB_PLAN_RANKS_H

#include <jansson.h>
#include <stdbool.h>

#include "attest.h"
#include "lab/base/message.h"

enum { LAB_RANKS_MOST = 10000 };

/* The link from one rank to another, used in both directions at once. */
typedef struct lab_link {
    double bytes_per_second, latency; /* latency: seconds of an empty message */
} lab_link;

typedef enum lab_way {
    LAB_WAY_RING,    /* K and V travel while the previous shard is computed */
    LAB_WAY_GATHER,  /* gather K and V of all ranks, then compute everything at once */
    LAB_WAY_ULYSSES, /* heads instead of rows, with two all-to-all exchanges */
    LAB_WAY_BOTH,    /* Ulysses within groups, a ring across them */
    LAB_WAY_COUNT
} lab_way;

/* One of the ways on that many ranks. */
typedef struct lab_way_time {
    bool possible;
    char why[96]; /* why it is not possible */
    int ring,
        heads; /* ranks of the ring, and of a group that shares heads; their product is the
                * number of ranks */
    double compute, send; /* seconds per rank, each alone */
    double seconds;       /* both, overlapped as far as possible */
} lab_way_time;

typedef struct lab_ranks_plan {
    int ranks;
    double whole; /* seconds of the whole problem on one rank */
    lab_way_time ways[LAB_WAY_COUNT];
    lab_way best; /* among the possible ones; the ring always is */
} lab_ranks_plan;

/* `memory`: bytes per second for merging partial results; 0: merges are not counted. `gradients`:
 * the backward pass, in which the gradients of K and V travel back in float32; `whole` is its
 * time. */
void lab_ranks_plan_make(lab_ranks_plan *plan, const att_problem *p, int ranks, double whole,
                         const lab_link *link, double memory, bool gradients);

/* "ring", "gather", "ulysses", "both". */
const char *lab_way_name(lab_way way);

/* "450,5": GB/s and microseconds; the second may be omitted. */
bool lab_link_parse(lab_link *link, const char *text, lab_message *why);

json_t *lab_ranks_plan_object(const lab_ranks_plan *plan);

#endif
