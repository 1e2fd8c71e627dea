/* copies.c: cp.async: a thread's copies of 4, 8 or 16 bytes from global to shared memory,
 * waited for by groups. */
#include "tests/virtual_gpu/async.h"
#include "tests/virtual_gpu/barrier.h"
#include "tests/virtual_gpu/global_memory.h"
#include "tests/virtual_gpu/ptx.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"
#include "tests/virtual_gpu/shared_memory.h"

typedef struct thread_copy {
    vgpu_async async;
    const char *from;
    unsigned to, size, bytes; /* zeros after `bytes` */
    long number;
    bool announced; /* it is waited for at an mbarrier, */
    bool arrived;   /* which was told */
} thread_copy;

static long copies_started;

static void land(vgpu_async *async) {
    const thread_copy *copy = (const thread_copy *)async;
    char *to = shared_at(copy->to, copy->size, 1, "cp.async");
    memcpy(to, copy->from, copy->bytes);
    memset(to + copy->bytes, 0, copy->size - copy->bytes);
}

static void check(const ptx_frame *f, const thread_copy *copy) {
    const char *name = f->instruction->name;
    const bool caches_l1 = f->instruction->choice[0] == 0;
    if (copy->size != 16 && !(caches_l1 && (copy->size == 4 || copy->size == 8)))
        vgpu_fail(CHECK_INSTRUCTION, "%s of %u bytes", name, copy->size);
    if (copy->bytes > copy->size)
        vgpu_fail(CHECK_BOUNDS, "%s reads %u bytes and has room for %u", name, copy->bytes,
                  copy->size);
    shared_at(copy->to, copy->size, copy->size, name);
    if ((uintptr_t)copy->from % copy->size != 0)
        vgpu_fail(CHECK_ALIGNMENT, "%s: global address %p is not a multiple of %u", name,
                  (const void *)copy->from, copy->size);
    if (copy->bytes > 0)
        global_touch(f->lane, copy->from, copy->bytes, GLOBAL_READ, name);
}

/* [to], [from], size (, bytes to read). Groups: cache. */
static void cp_async(ptx_frame *f) {
    vgpu_lane *lane = f->lane;
    thread_copy copy = {
        .async = {.land = land, .group = lane->copy_group, .next = lane->copies},
        .to = (unsigned)ptx_get(f, 0),
        .from = ptx_pointer(ptx_get(f, 1)),
        .size = (unsigned)ptx_get(f, 2),
        .number = copies_started++};
    copy.bytes = f->instruction->count > 3 ? (unsigned)ptx_get(f, 3) : copy.size;
    check(f, &copy);
    lane->copies = async_start(&copy.async, sizeof copy);
    shared_in_flight(lane->copies, copy.to, copy.size);
}

static void commit(ptx_frame *f) {
    f->lane->copy_group++;
}

/* Arrived data counts as written by the thread: the copy engine and products see it after a
 * fence. */
static void count_as_written(vgpu_lane *lane, long group) {
    for (vgpu_async *a = lane->copies; a; a = a->next) {
        const thread_copy *copy = (const thread_copy *)a;
        if (a->group >= group || copy->announced)
            continue;
        async_finish(a);
        shared_touch(lane, copy->to, copy->size, SHARED_WRITE, "cp.async");
    }
}

static void wait_before(vgpu_lane *lane, long group) {
    count_as_written(lane, group);
    async_finish_groups(&lane->copies, group);
    lane_may_yield(lane);
}

static void wait_group(ptx_frame *f) {
    wait_before(f->lane, f->lane->copy_group - (long)ptx_get(f, 0));
}

static void wait_all(ptx_frame *f) {
    f->lane->copy_group++;
    wait_before(f->lane, f->lane->copy_group);
}

/* ---- an arrival when the copies so far have landed ---- */

typedef struct copy_arrival {
    vgpu_async async;
    unsigned barrier;
    long number; /* of the first copy that it does not wait for */
} copy_arrival;

static void land_arrival(vgpu_async *async) {
    const copy_arrival *arrival = (const copy_arrival *)async;
    async->block->landings++;
    for (vgpu_async *a = async->by->copies; a; a = a->next) {
        thread_copy *copy = (thread_copy *)a;
        if (copy->number >= arrival->number || copy->arrived)
            continue;
        async_finish(a);
        shared_announced(copy->to, copy->size);
        copy->arrived = true;
    }
    mbarrier_arrive(async->by, arrival->barrier, 1, 0);
}

/* Groups: .noinc. Without it, the phase expects one more arrival, which is this one. */
static void arrive_later(ptx_frame *f) {
    const copy_arrival arrival = {.async = {.land = land_arrival, .detached = true},
                                  .barrier = (unsigned)ptx_get(f, 0),
                                  .number = copies_started};
    if (f->instruction->choice[0] == 0)
        mbarrier_arrive(f->lane, arrival.barrier, -1, 0);
    for (vgpu_async *a = f->lane->copies; a; a = a->next)
        ((thread_copy *)a)->announced = true;
    async_start(&arrival.async, sizeof arrival);
    lane_yield(f->lane);
}

const ptx_row ptx_copies[] = {
    {"cp.async(.ca|.cg).shared(|::cta).global", cp_async, 0, 3, 4},
    {"cp.async.commit_group", commit, 0, 0, 0},
    {"cp.async.wait_group", wait_group, 0, 1, 1},
    {"cp.async.wait_all", wait_all, 0, 0, 0},
    {"cp.async.mbarrier.arrive(|.noinc)(|.shared|.shared::cta).b64", arrive_later, 0, 1, 1},
    {0},
};
