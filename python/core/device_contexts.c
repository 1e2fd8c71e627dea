/* device_contexts.c: contexts protected by their own lock, which is not held while one is
 * made. */
#include "python/core/device_contexts.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects everything below */
static kept_context *places[1 + DEVICE_CONTEXTS_GPUS];   /* the CPU, then GPUs */
static int32_t cpu_threads;                              /* 0: the library's choice */

static void destroy(kept_context *kept) {
    att_context_destroy(kept->context);
    free(kept);
}

/* The context at `place` with one more user, or NULL; in both cases the options for a new
 * one. */
static kept_context *find(int place, att_context_options *options) {
    pthread_mutex_lock(&lock);
    kept_context *found = places[place];
    if (found)
        found->users++;
    *options =
        (att_context_options){.size = sizeof *options,
                              .device = place ? ATT_DEVICE_CUDA : ATT_DEVICE_CPU,
                              .device_index = place ? place - 1 : 0,
                              .threads = place ? 0 : cpu_threads,
                              /* DLPack and XLA say where an array is, and that was checked */
                              .flags = ATT_TRUST_POINTERS};
    pthread_mutex_unlock(&lock);
    return found;
}

/* Store `made` at `place`, unless another thread was faster or the number of threads changed
 * meanwhile. */
static kept_context *settle(int place, kept_context *made, int32_t threads) {
    pthread_mutex_lock(&lock);
    kept_context *settled = places[place];
    if (!settled && (place || threads == cpu_threads))
        settled = places[place] = made;
    if (settled)
        settled->users++;
    pthread_mutex_unlock(&lock);
    if (settled != made)
        destroy(made);
    return settled;
}

att_status device_context_take(kept_context **out, att_device device, int32_t index) {
    const int place = device == ATT_DEVICE_CPU ? 0 : 1 + index;
    *out = NULL;
    if (index < 0 || index >= DEVICE_CONTEXTS_GPUS)
        return ATT_E_DEVICE;
    while (!*out) {
        att_context_options options;
        *out = find(place, &options);
        if (*out)
            break;
        kept_context *made = calloc(1, sizeof *made);
        if (!made)
            return ATT_E_MEMORY;
        const att_status status = att_context_create(&made->context, &options);
        if (status != ATT_OK) {
            free(made);
            return status;
        }
        *out = settle(place, made, options.threads);
    }
    return ATT_OK;
}

void device_context_give(kept_context *kept) {
    pthread_mutex_lock(&lock);
    const bool last = --kept->users == 0 && kept->replaced;
    pthread_mutex_unlock(&lock);
    if (last)
        destroy(kept);
}

bool device_context_is_current(const kept_context *kept) {
    pthread_mutex_lock(&lock);
    const bool current = !kept->replaced;
    pthread_mutex_unlock(&lock);
    return current;
}

void device_context_threads(int32_t count) {
    pthread_mutex_lock(&lock);
    kept_context *old = places[0];
    places[0] = NULL;
    cpu_threads = count;
    if (old)
        old->replaced = true;
    const bool unused = old && old->users == 0;
    pthread_mutex_unlock(&lock);
    if (unused)
        destroy(old); /* remaining plans keep the library's context alive */
}
