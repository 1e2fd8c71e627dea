/* plan_cache.c: a hash table of plans; the one that was not used for longest makes room. */
#include "python/core/plan_cache.h"
#include "python/core/failure.h"

#include <string.h>

enum { BUCKETS = 256, DEVICES = 64 };
_Static_assert(sizeof(att_problem) % 8 == 0, "a key is whole words");

static cached_plan *buckets[BUCKETS];
static att_context *contexts[1 + DEVICES]; /* the CPU, then GPUs */
static int32_t cpu_threads;                /* 0: the library's choice */
static uint64_t tick, hits, misses;
static int count;

att_context *context_of(att_device device, int32_t index) {
    const int place = device == ATT_DEVICE_CPU ? 0 : 1 + index;
    if (place < 0 || place > DEVICES) {
        PyErr_Format(PyExc_ValueError, "there is no device cuda:%d", (int)index);
        return NULL;
    }
    if (contexts[place])
        return contexts[place];
    const att_context_options options = {
        .size = sizeof options,
        .device = device,
        .device_index = device == ATT_DEVICE_CUDA ? index : 0,
        .threads = device == ATT_DEVICE_CPU ? cpu_threads : 0,
        /* DLPack says where an array is; problem_build.c looked */
        .flags = ATT_TRUST_POINTERS};
    att_context *made;
    att_status status;
    Py_BEGIN_ALLOW_THREADS status = att_context_create(&made, &options);
    Py_END_ALLOW_THREADS if (status != ATT_OK) return failure_raise(status);
    if (contexts[place]) /* another thread was faster */
        att_context_destroy(made);
    else
        contexts[place] = made;
    return contexts[place];
}

static uint64_t hash_of(const cached_plan *wanted) {
    uint64_t hash = (uint64_t)wanted->device * DEVICES + (uint64_t)wanted->index;
    for (size_t i = 0; i < sizeof wanted->key / 8; i++) {
        hash = (hash ^ wanted->key[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

static cached_plan *find(const cached_plan *wanted) {
    for (cached_plan *each = buckets[wanted->hash % BUCKETS]; each; each = each->next)
        if (each->hash == wanted->hash && each->device == wanted->device &&
            each->index == wanted->index && !memcmp(each->key, wanted->key, sizeof each->key))
            return each;
    return NULL;
}

static void free_plan(cached_plan *plan) {
    att_plan_destroy(plan->plan);
    PyMem_Free(plan);
}

static void forget(cached_plan *plan) {
    cached_plan **link = &buckets[plan->hash % BUCKETS];
    while (*link != plan)
        link = &(*link)->next;
    *link = plan->next;
    count--;
    plan->forgotten = 1;
    if (!plan->users)
        free_plan(plan);
}

static void make_room(void) {
    cached_plan *oldest = NULL;
    if (count < PLAN_CACHE_LIMIT)
        return;
    for (int i = 0; i < BUCKETS; i++)
        for (cached_plan *each = buckets[i]; each; each = each->next)
            if (!oldest || each->used < oldest->used)
                oldest = each;
    forget(oldest);
}

static cached_plan *insert(const cached_plan *like, att_plan *plan) {
    cached_plan *made = PyMem_Malloc(sizeof *made);
    if (!made) {
        att_plan_destroy(plan);
        PyErr_NoMemory();
        return NULL;
    }
    make_room();
    *made = *like;
    made->plan = plan;
    made->workspace = att_plan_workspace(plan);
    made->next = buckets[made->hash % BUCKETS];
    buckets[made->hash % BUCKETS] = made;
    count++;
    return made;
}

static cached_plan *create(const cached_plan *like, const att_problem *problem) {
    att_context *context = context_of(like->device, like->index);
    att_plan *plan;
    att_status status;
    if (!context)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = att_plan_create(&plan, context, problem);
    Py_END_ALLOW_THREADS if (status != ATT_OK) return failure_raise(status);
    cached_plan *found = find(like);
    if (!found)
        return insert(like, plan);
    att_plan_destroy(plan); /* another thread was faster */
    return found;
}

cached_plan *plan_cache_take(att_device device, int32_t index, const att_problem *problem) {
    cached_plan wanted = {.device = device, .index = index};
    memcpy(wanted.key, problem, sizeof wanted.key);
    wanted.hash = hash_of(&wanted);
    cached_plan *found = find(&wanted);
    if (found) {
        hits++;
    } else {
        misses++;
        found = create(&wanted, problem);
        if (!found)
            return NULL;
    }
    found->used = ++tick;
    found->users++;
    return found;
}

void plan_cache_give(cached_plan *plan) {
    plan->users--;
    if (plan->forgotten && !plan->users)
        free_plan(plan);
}

/* Forget the plans of one device, or of all for 0. */
static void forget_plans(att_device device) {
    for (int i = 0; i < BUCKETS; i++) {
        cached_plan *next;
        for (cached_plan *each = buckets[i]; each; each = next) {
            next = each->next;
            if (!device || each->device == device)
                forget(each);
        }
    }
}

PyObject *plan_cache_threads(PyObject *self, PyObject *count_object) {
    (void)self;
    const long wanted = PyLong_AsLong(count_object);
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    if (wanted < 0 || wanted > INT32_MAX) {
        PyErr_Format(PyExc_ValueError,
                     "count is %ld: 1 or more would fit, or 0 for the default", wanted);
        return NULL;
    }
    forget_plans(ATT_DEVICE_CPU);
    att_context_destroy(contexts[0]); /* plans in use keep it alive */
    contexts[0] = NULL;
    cpu_threads = (int32_t)wanted;
    Py_RETURN_NONE;
}

PyObject *plan_cache_info(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return Py_BuildValue("(KKii)", (unsigned long long)hits, (unsigned long long)misses, count,
                         (int)PLAN_CACHE_LIMIT);
}

PyObject *plan_cache_clear(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    forget_plans(0);
    hits = misses = 0;
    Py_RETURN_NONE;
}
