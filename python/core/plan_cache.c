/* plan_cache.c: a hash table of plans; the least recently used one makes room. */
#include "python/core/plan_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects everything below */
static cached_plan *buckets[BUCKETS];
static plan_cache_counts counts;
static uint64_t tick;

static att_status create_attention(att_plan **out, att_context *context, const void *problem) {
    return att_plan_create(out, context, problem);
}

static att_status create_backward(att_plan **out, att_context *context, const void *problem) {
    return att_backward_plan_create(out, context, problem);
}

static att_status create_merge(att_plan **out, att_context *context, const void *problem) {
    return att_merge_plan_create(out, context, problem);
}

static att_status create_moe(att_plan **out, att_context *context, const void *problem) {
    return att_moe_plan_create(out, context, problem);
}

_Static_assert(sizeof(att_problem) % 8 == 0 && sizeof(att_merge_problem) % 8 == 0 &&
                   sizeof(att_moe_problem) % 8 == 0,
               "a problem is whole words");
const plan_operation plan_of_attention = {sizeof(att_problem), create_attention};
const plan_operation plan_of_backward = {sizeof(att_problem), create_backward};
const plan_operation plan_of_merge = {sizeof(att_merge_problem), create_merge};
const plan_operation plan_of_moe = {sizeof(att_moe_problem), create_moe};

static uint64_t hash_of(const plan_key *key) {
    uint64_t hash = (uint64_t)key->device * DEVICE_CONTEXTS_GPUS + (uint64_t)key->index;
    for (size_t at = 0; at < key->operation->problem_bytes; at += sizeof hash) {
        uint64_t word;
        memcpy(&word, (const char *)key->problem + at, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

static bool same_key(const plan_key *a, const plan_key *b) {
    return a->operation == b->operation && a->device == b->device && a->index == b->index &&
           !memcmp(a->problem, b->problem, a->operation->problem_bytes);
}

/* With the lock held: the plan, with one more user, or NULL. */
static cached_plan *find(const plan_key *key, uint64_t hash) {
    for (cached_plan *each = buckets[hash % BUCKETS]; each; each = each->next)
        if (each->hash == hash && same_key(&each->key, key)) {
            each->used = ++tick;
            each->users++;
            return each;
        }
    return NULL;
}

/* Without the lock: the last plan of a context ends the context's threads. */
static void free_plans(cached_plan *list) {
    while (list) {
        cached_plan *next = list->next;
        att_plan_destroy(list->plan);
        free(list);
        list = next;
    }
}

/* With the lock held: remove it from the cache, and add it to the list to be freed unless it
 * has users. */
static void forget(cached_plan *plan, cached_plan **unused) {
    cached_plan **link = &buckets[plan->hash % BUCKETS];
    while (*link != plan)
        link = &(*link)->next;
    *link = plan->next;
    counts.plans--;
    plan->forgotten = true;
    if (plan->users)
        return;
    plan->next = *unused;
    *unused = plan;
}

static void make_room(cached_plan **unused) {
    cached_plan *oldest = NULL;
    if (counts.plans < PLAN_CACHE_LIMIT)
        return;
    for (int i = 0; i < BUCKETS; i++)
        for (cached_plan *each = buckets[i]; each; each = each->next)
            if (!oldest || each->used < oldest->used)
                oldest = each;
    forget(oldest, unused);
}

/* Make a plan outside the cache. */
static att_status create(cached_plan **out, const plan_key *key, att_context *context) {
    const size_t bytes = key->operation->problem_bytes;
    cached_plan *made = calloc(1, sizeof *made + bytes);
    if (!made)
        return ATT_E_MEMORY;
    const att_status status = key->operation->create(&made->plan, context, key->problem);
    if (status != ATT_OK) {
        free(made);
        return status;
    }
    memcpy(made + 1, key->problem, bytes);
    made->workspace = att_plan_workspace(made->plan);
    made->key = *key;
    made->key.problem = made + 1;
    made->hash = hash_of(key);
    made->users = 1;
    *out = made;
    return ATT_OK;
}

/* Put it into the cache; if another thread was faster, return its plan and free this one. A
 * plan whose context was replaced meanwhile is used for this call and then forgotten. */
static cached_plan *insert(cached_plan *made, const kept_context *context) {
    cached_plan *unused = NULL;
    pthread_mutex_lock(&lock);
    cached_plan *settled = find(&made->key, made->hash);
    if (settled) {
        made->next = NULL;
        unused = made;
    } else if (!device_context_is_current(context)) {
        settled = made;
        made->forgotten = true;
    } else {
        make_room(&unused);
        settled = made;
        made->used = ++tick;
        made->next = buckets[made->hash % BUCKETS];
        buckets[made->hash % BUCKETS] = made;
        counts.plans++;
    }
    pthread_mutex_unlock(&lock);
    free_plans(unused);
    return settled;
}

cached_plan *plan_cache_find(const plan_key *key) {
    const uint64_t hash = hash_of(key);
    pthread_mutex_lock(&lock);
    cached_plan *found = find(key, hash);
    counts.hits += found != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

att_status plan_cache_take(cached_plan **out, const plan_key *key) {
    kept_context *context;
    *out = plan_cache_find(key);
    if (*out)
        return ATT_OK;
    pthread_mutex_lock(&lock);
    counts.misses++;
    pthread_mutex_unlock(&lock);
    att_status status = device_context_take(&context, key->device, key->index);
    if (status != ATT_OK)
        return status;
    status = create(out, key, context->context);
    if (status == ATT_OK)
        *out = insert(*out, context);
    device_context_give(context);
    return status;
}

void plan_cache_give(cached_plan *plan) {
    pthread_mutex_lock(&lock);
    const bool last = --plan->users == 0 && plan->forgotten;
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    plan->next = NULL;
    free_plans(plan);
}

static void forget_plans(att_device device, bool reset) {
    cached_plan *unused = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BUCKETS; i++) {
        cached_plan *next;
        for (cached_plan *each = buckets[i]; each; each = next) {
            next = each->next;
            if (!device || each->key.device == device)
                forget(each, &unused);
        }
    }
    if (reset)
        counts.hits = counts.misses = 0;
    pthread_mutex_unlock(&lock);
    free_plans(unused);
}

void plan_cache_forget(att_device device) {
    forget_plans(device, false);
}

void plan_cache_reset(void) {
    forget_plans(0, true);
}

plan_cache_counts plan_cache_count(void) {
    pthread_mutex_lock(&lock);
    const plan_cache_counts seen = counts;
    pthread_mutex_unlock(&lock);
    return seen;
}
