/* async.c: asynchronous events, which happen at some time between their start and the wait for
 * them. */
#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/async.h"

#include <stdlib.h>
#include <string.h>

#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/shared_memory.h"

static vgpu_async **pending;
static size_t count, room;

static void add_pending(vgpu_async *async) {
    if (count == room) {
        room = room ? 2 * room : 256;
        pending = allocate_grown(pending, room * sizeof *pending);
    }
    async->at = count;
    pending[count++] = async;
}

vgpu_async *async_start(const vgpu_async *async, size_t bytes) {
    vgpu_async *copy = allocate(bytes);
    memcpy(copy, async, bytes);
    vgpu_lane *lane = vgpu_lane_now();
    copy->by = lane;
    copy->block = lane->block;
    copy->started = lane->at;
    copy->done = false;
    add_pending(copy);
    return copy;
}

void async_finish(vgpu_async *async) {
    if (async->done)
        return;
    async->done = true;
    pending[async->at] = pending[--count];
    pending[async->at]->at = async->at;
    vgpu_thread *runs = vgpu_self;
    vgpu_self = NULL;
    shared_for(async->block);
    if (async->writes.bytes > 0)
        shared_landed(async);
    async->land(async);
    vgpu_self = runs;
    if (async->detached)
        free(async);
}

void async_finish_groups(vgpu_async **list, long group) {
    while (*list) {
        vgpu_async *async = *list;
        if (async->group >= group) {
            list = &async->next;
            continue;
        }
        *list = async->next;
        async_finish(async);
        free(async);
    }
}

unsigned async_pending(void) {
    return (unsigned)count;
}

void async_land(unsigned which) {
    async_finish(pending[which]);
}

/* Blocks of a cluster write into each other's memory. */
static bool writes_to(const vgpu_async *async, const vgpu_block *block) {
    return async->writes.bytes > 0 && async->block->cluster == block->cluster &&
           async->writes.address >> SHARED_WINDOW_BITS == (unsigned)block->rank;
}

void async_block_ended(const vgpu_block *block) {
    for (size_t i = 0; i < count; i++)
        if (writes_to(pending[i], block))
            vgpu_fail(CHECK_LIFETIME,
                      "a block ends while the copy of %s:%d to its shared memory is in flight",
                      pending[i]->started.file, pending[i]->started.line);
}

bool async_serves(const vgpu_cluster *cluster) {
    for (size_t i = 0; i < count; i++)
        if (pending[i]->block->cluster == cluster)
            return true;
    return false;
}

void async_free_list(vgpu_async **list) {
    while (*list) {
        vgpu_async *async = *list;
        *list = async->next;
        if (async->done)
            free(async);
        else
            async->detached = true; /* it lands on its own */
    }
}

void async_drop_all(void) {
    for (size_t i = 0; i < count; i++)
        free(pending[i]);
    count = 0;
}
