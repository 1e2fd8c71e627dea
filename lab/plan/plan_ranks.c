/* plan_ranks.c: compute and communication times of a sequence split over ranks. */
#include "lab/plan/plan_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds of launch overhead per call. */
static const double call_start = 5e-6;

/* Bytes of the whole problem: what travels and, in float32, the gradients of K and V (0 in the
 * forward pass), and what a rank adds up after each step. */
typedef struct sizes {
    double q, kv, o, d_kv, sums;
} sizes;

static double element(att_dtype dtype) {
    return dtype == ATT_F32 ? 4.0 : 2.0;
}

static sizes sizes_of(const att_problem *p, bool gradients) {
    const double rows = (double)p->batch * (double)p->seq_q * (double)p->heads_q;
    const double keys = (double)p->batch * (double)p->seq_k * (double)p->heads_kv;
    const double d_kv = gradients ? keys * (double)(p->d_qk + p->d_v) * 4.0 : 0.0;
    return (sizes){.q = rows * (double)p->d_qk * element(p->dtype),
                   .kv = keys * (double)(p->d_qk + p->d_v) * element(p->dtype),
                   .o = rows * (double)p->d_v * element(p->dtype_o),
                   .d_kv = d_kv,
                   .sums = rows * (double)(gradients ? p->d_qk : p->d_v) * 4.0 + d_kv};
}

static double message(const lab_link *link, double bytes) {
    return link->latency + bytes / link->bytes_per_second;
}

typedef struct job {
    const att_problem *p;
    const lab_link *link;
    sizes bytes;
    double whole, memory;
} job;

/* Seconds to add a partial result of 1/ranks of the rows to the sum: both are read, the sum is
 * written. */
static double merge(const job *j, double ranks) {
    return j->memory > 0.0 ? 3.0 * j->bytes.sums / ranks / j->memory : 0.0;
}

/* The part of the heads of K and V that a rank has in a group of `heads` ranks; ranks share a
 * head if there are fewer heads. */
static double heads_of_group(const job *j, int heads) {
    return ceil((double)j->p->heads_kv / heads) / (double)j->p->heads_kv;
}

/* The exchange of q, k and v before, and of O after, in groups of `heads` ranks that hold
 * 1/ring of the rows together. In the backward pass d_o comes before and as many gradients go
 * back after. */
static double exchanges(const job *j, int ring, int heads) {
    if (heads == 1)
        return 0.0;
    const double others = (heads - 1.0) / heads, ranks = (double)ring * heads;
    const double in =
        (j->bytes.q / ranks + j->bytes.kv * heads_of_group(j, heads) / ring) * others;
    return message(j->link, in) + message(j->link, j->bytes.o / ranks * others);
}

/* Steps of a ring that bring keys: those of a window come from the neighbours alone. */
static double steps_of(const att_problem *p, int ring) {
    const double shard = (double)p->seq_k / ring;
    const double left = p->window_left < 0 ? ring : ceil((double)p->window_left / shard);
    const double right = p->causal != ATT_CAUSAL_NONE ? 0.0
                         : p->window_right < 0        ? ring
                                                      : ceil((double)p->window_right / shard);
    return fmin(ring - 1.0, left + right);
}

/* Whether `ranks` ranks can share the heads: alike, those of q and those of k and v. */
static bool can_share(const att_problem *p, int ranks) {
    return p->heads_q % ranks == 0 && (p->heads_kv % ranks == 0 || ranks % p->heads_kv == 0);
}

/* `together`: all messages of the ring at once instead of one per step. The gradients of a step's
 * keys go back while the next step is computed. */
static void time_way(lab_way_time *t, const job *j, int ring, int heads, bool together) {
    const double ranks = (double)ring * heads;
    const double steps = steps_of(j->p, ring);
    const double step = j->whole / (ranks * (steps + 1.0)) + call_start;
    const double later = step + merge(j, ranks);
    const double part = heads_of_group(j, heads) / ring, shard = j->bytes.kv * part;
    const double back = j->bytes.d_kv > 0.0 ? message(j->link, j->bytes.d_kv * part) : 0.0;
    t->possible = true;
    t->ring = ring;
    t->heads = heads;
    t->compute = step + steps * later;
    double ring_send = 0.0, ring_seconds = t->compute;
    if (steps > 0.0 && together) {
        ring_send = message(j->link, steps * shard);
        ring_seconds = fmax(step, ring_send) + later + (steps - 1.0) * fmax(later, back) + back;
    } else if (steps > 0.0) {
        ring_send = steps * message(j->link, shard);
        ring_seconds = fmax(step, message(j->link, shard)) + later +
                       (steps - 1.0) * fmax(later, message(j->link, shard) + back) + back;
    }
    t->send = exchanges(j, ring, heads) + ring_send + steps * back;
    t->seconds = exchanges(j, ring, heads) + ring_seconds;
}

static void cannot(lab_way_time *t, const char *why, long long a, long long b) {
    *t = (lab_way_time){.possible = false};
    snprintf(t->why, sizeof t->why, why, a, b);
}

/* The best group size that divides both the ranks and the heads. */
static void time_both(lab_way_time *best, const job *j, int ranks) {
    cannot(best, "no divisor of %lld ranks can share %lld heads", ranks,
           (long long)j->p->heads_q);
    for (int heads = 2; heads < ranks; heads++) {
        lab_way_time t;
        if (ranks % heads || !can_share(j->p, heads))
            continue;
        time_way(&t, j, ranks / heads, heads, false);
        if (!best->possible || t.seconds < best->seconds)
            *best = t;
    }
}

void lab_ranks_plan_make(lab_ranks_plan *plan, const att_problem *p, int ranks, double whole,
                         const lab_link *link, double memory, bool gradients) {
    const job j = {p, link, sizes_of(p, gradients), whole, memory};
    *plan = (lab_ranks_plan){.ranks = ranks, .whole = whole, .best = LAB_WAY_RING};
    time_way(&plan->ways[LAB_WAY_RING], &j, ranks, 1, false);
    time_way(&plan->ways[LAB_WAY_GATHER], &j, ranks, 1, true);
    if (p->heads_q % ranks)
        cannot(&plan->ways[LAB_WAY_ULYSSES],
               "%lld heads cannot be divided evenly among %lld ranks", (long long)p->heads_q,
               ranks);
    else if (!can_share(p, ranks))
        cannot(&plan->ways[LAB_WAY_ULYSSES],
               "%lld heads of k and v cannot be shared by %lld ranks", (long long)p->heads_kv,
               ranks);
    else
        time_way(&plan->ways[LAB_WAY_ULYSSES], &j, 1, ranks, false);
    time_both(&plan->ways[LAB_WAY_BOTH], &j, ranks);
    for (int w = 0; w < LAB_WAY_COUNT; w++)
        if (plan->ways[w].possible && plan->ways[w].seconds < plan->ways[plan->best].seconds)
            plan->best = (lab_way)w;
}

const char *lab_way_name(lab_way way) {
    static const char *const names[LAB_WAY_COUNT] = {"ring", "gather", "ulysses", "both"};
    return names[way];
}

bool lab_link_parse(lab_link *link, const char *text, lab_message *why) {
    char *end, *at;
    const double rate = strtod(text, &end);
    double latency = 0.0;
    bool read = end != text;
    if (read && *end == ',') {
        at = end + 1;
        latency = strtod(at, &end);
        read = end != at;
    }
    if (!read || *end || !(rate > 0.0 && rate <= 1e6) || !(latency >= 0.0 && latency <= 1e7))
        return lab_fail(why, "expected GB/s, or GB/s and microseconds, such as 450,5");
    *link = (lab_link){.bytes_per_second = rate * 1e9, .latency = latency * 1e-6};
    return true;
}

static json_t *way_object(const lab_ranks_plan *plan, lab_way way) {
    const lab_way_time *t = &plan->ways[way];
    if (!t->possible)
        return json_pack("{s:s, s:b, s:s}", "way", lab_way_name(way), "possible", 0, "why",
                         t->why);
    return json_pack("{s:s, s:b, s:i, s:i, s:f, s:f, s:f, s:b}", "way", lab_way_name(way),
                     "possible", 1, "ring", t->ring, "heads", t->heads, "compute_seconds",
                     t->compute, "send_seconds", t->send, "seconds", t->seconds, "best",
                     way == plan->best);
}

json_t *lab_ranks_plan_object(const lab_ranks_plan *plan) {
    json_t *ways = json_array();
    for (int w = 0; w < LAB_WAY_COUNT; w++)
        json_array_append_new(ways, way_object(plan, (lab_way)w));
    return json_pack("{s:i, s:f, s:o}", "ranks", plan->ranks, "whole_seconds", plan->whole,
                     "ways", ways);
}
