/* plan_cache.h: the one cache of plans, keyed by operation, device and problem. Any thread may
 * call, with or without the GIL: Python's calls and those on XLA's threads share it. */
#ifndef ATTEST_PYTHON_PLAN_CACHE_H
#define ATTEST_PYTHON_PLAN_CACHE_H

#include "python/core/device_contexts.h"

#include <stddef.h>

enum { PLAN_CACHE_LIMIT = 256 };

/* An operation of the library: the size of its problems, in whole words, and how to make a plan
 * from one. */
typedef struct plan_operation {
    size_t problem_bytes;
    att_status (*create)(att_plan **out, att_context *context, const void *problem);
} plan_operation;

extern const plan_operation plan_of_attention, plan_of_backward, plan_of_merge, plan_of_moe;

/* The key of a plan. It includes all bytes of the problem, also padding. */
typedef struct plan_key {
    const plan_operation *operation;
    att_device device;
    int32_t index; /* of a GPU, below DEVICE_CONTEXTS_GPUS */
    const void *problem;
} plan_key;

typedef struct cached_plan {
    att_plan *plan;
    size_t workspace; /* bytes */

    plan_key key;        /* its problem is a copy after this struct */
    uint64_t hash, used; /* `used`: the tick of the last use */
    int users;           /* calls in progress */
    bool forgotten;      /* removed from the cache; freed with its last user */
    struct cached_plan *next;
} cached_plan;

/* The plan for a problem if there is one, else NULL. Call plan_cache_give() afterwards. */
cached_plan *plan_cache_find(const plan_key *key);

/* The same; makes the plan if there is none, which may take long: no lock is held meanwhile. */
att_status plan_cache_take(cached_plan **out, const plan_key *key);
void plan_cache_give(cached_plan *plan);

/* Forget the plans of one device, or of all for 0; the second also resets the counts. */
void plan_cache_forget(att_device device);
void plan_cache_reset(void);

typedef struct plan_cache_counts {
    uint64_t hits, misses;
    int plans;
} plan_cache_counts;

plan_cache_counts plan_cache_count(void);

#endif
