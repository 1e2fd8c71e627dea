/* plan_ranks.h: a sequence cut over several devices: how long each way of attest.torch.parallel computes and sends.
 *
 * A model, not a measurement: docs/parallel.md says what is in it. Thread: safe. */
#ifndef LAB_PLAN_RANKS_H
#define LAB_PLAN_RANKS_H

#include <jansson.h>
#include <stdbool.h>

#include "attest.h"
#include "lab/base/message.h"

enum { LAB_RANKS_MOST = 10000 };

/* What one rank sends to another, both ways at once. */
typedef struct lab_link {
    double bytes_per_second, latency; /* seconds of a message of no bytes */
} lab_link;

typedef enum lab_way {
    LAB_WAY_RING,    /* K and V travel while the shard before is computed */
    LAB_WAY_GATHER,  /* K and V of all, then everything at once */
    LAB_WAY_ULYSSES, /* heads instead of rows, by two exchanges among all */
    LAB_WAY_BOTH,    /* Ulysses in groups, a ring over them */
    LAB_WAY_COUNT
} lab_way;

/* One of the ways on so many ranks. */
typedef struct lab_way_time {
    bool possible;
    char why[96]; /* not */
    int ring,
        heads; /* ranks of the ring, and of a group that shares heads; their product is the ranks */
    double compute, send; /* seconds of a rank, each by itself */
    double seconds;       /* both, as far as one hides the other */
} lab_way_time;

typedef struct lab_ranks_plan {
    int ranks;
    double whole; /* seconds of the whole problem on one rank */
    lab_way_time ways[LAB_WAY_COUNT];
    lab_way best; /* of those that are possible; the ring always is */
} lab_ranks_plan;

/* `memory`: bytes per second at which partial results are merged; 0: merges are not counted. */
void lab_ranks_plan_make(lab_ranks_plan *plan, const att_problem *p, int ranks, double whole,
                         const lab_link *link, double memory);

/* "ring", "gather", "ulysses", "both". */
const char *lab_way_name(lab_way way);

/* "450,5": GB/s and microseconds; the second may be left out. */
bool lab_link_parse(lab_link *link, const char *text, lab_message *why);

json_t *lab_ranks_plan_object(const lab_ranks_plan *plan);

#endif
