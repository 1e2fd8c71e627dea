/* bulk_copies.c: the copy engine, and its copies without a tensor map. */
#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/bulk_copies.h"

#include <stdlib.h>

#include "tests/virtual_gpu/async.h"
#include "tests/virtual_gpu/barrier.h"
#include "tests/virtual_gpu/global_memory.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"
#include "tests/virtual_gpu/shared_memory.h"

enum { UNIT = 16 };

/* ---- to shared memory ---- */

typedef struct bulk_loading {
    vgpu_async async;
    tensor_box box;
    unsigned barrier;
    races_clock *clock; /* of the lane when it started */
} bulk_loading;

static void check_alive(const vgpu_async *async, unsigned address) {
    if (shared_block(address)->live == 0)
        vgpu_fail(CHECK_LIFETIME, "the copy of %s:%d arrives at a block that has ended",
                  async->started.file, async->started.line);
}

static void land_load(vgpu_async *async) {
    bulk_loading *load = (bulk_loading *)async;
    check_alive(async, load->box.shared);
    tensor_box_load(&load->box,
                    shared_at(load->box.shared, tensor_box_span(&load->box), 1, "a copy"));
    mbarrier_complete(load->barrier, tensor_box_bytes(&load->box), load->clock);
    races_drop(load->clock);
}

/* The copy engine does not see earlier writes of threads, unless they executed a fence: the
 * writes might come later. */
static void check_fenced(const ptx_frame *f, unsigned address, unsigned bytes) {
    enum { CELL = 4 };
    const vgpu_block *block = shared_block(address);
    const unsigned offset = (address - block->base) & ((1u << SHARED_WINDOW_BITS) - 1);
    for (unsigned c = offset / CELL; c < (offset + bytes) / CELL; c++) {
        const vgpu_cell *cell = &block->cells[c];
        if (cell->writer && cell->writer != WRITER_LANDED &&
            block->lanes[cell->writer - 1].fences == cell->fences)
            vgpu_fail(CHECK_PROXY,
                      "%s writes shared memory +%u, which thread %d wrote without "
                      "fence.proxy.async after it",
                      f->instruction->name, c * CELL, cell->writer - 1);
    }
}

static void touch_rows(const ptx_frame *f, const tensor_box *box) {
    const unsigned rows = tensor_box_rows(box);
    box_row row;
    for (unsigned n = 0; n < rows; n++)
        if (tensor_box_row(box, n, &row))
            global_touch(f->lane, row.global, row.bytes, GLOBAL_READ, f->instruction->name);
}

void bulk_load(ptx_frame *frame, const tensor_box *box, unsigned barrier) {
    const unsigned span = tensor_box_span(box);
    if (box->shared >> SHARED_WINDOW_BITS != barrier >> SHARED_WINDOW_BITS)
        vgpu_fail(CHECK_BOUNDS, "%s: data (0x%x) and mbarrier (0x%x) lie in different blocks",
                  frame->instruction->name, box->shared, barrier);
    shared_at(box->shared, span, UNIT, frame->instruction->name);
    check_fenced(frame, box->shared, span);
    mbarrier_used(frame->lane, barrier, true);
    touch_rows(frame, box);
    const bulk_loading load = {
        .async = {.land = land_load, .detached = true}, .box = *box, .barrier = barrier};
    bulk_loading *started = (bulk_loading *)async_start(&load.async, sizeof load);
    shared_in_flight(&started->async, box->shared, span);
    started->clock = races_now(frame->lane);
}

/* ---- to global memory: shared memory is read, and later global memory is written ---- */

typedef struct bulk_writing {
    vgpu_async async;
    tensor_box box;
    bool adds, was_read;
    vgpu_async *reading; /* until it was read */
    char *data;          /* what was read */
} bulk_writing;

typedef struct bulk_reading {
    vgpu_async async;
    bulk_writing *writing;
    bool released;
} bulk_reading;

static void land_reading(vgpu_async *async) {
    bulk_writing *writing = ((bulk_reading *)async)->writing;
    const unsigned span = tensor_box_span(&writing->box);
    writing->data = allocate(span);
    memcpy(writing->data, shared_at(writing->box.shared, span, 1, "a copy"), span);
    writing->was_read = true;
}

static void land_writing(vgpu_async *async) {
    bulk_writing *writing = (bulk_writing *)async;
    if (!writing->was_read)
        async_finish(writing->reading);
    if (writing->adds)
        tensor_box_add(&writing->box, writing->data);
    else
        tensor_box_store(&writing->box, writing->data);
    free(writing->data);
    writing->data = NULL;
}

static void link_store(vgpu_lane *lane, vgpu_async *async) {
    async->group = lane->store_group;
    async->next = lane->stores;
    lane->stores = async;
}

/* Elements outside the tensor are not written, so their contents do not matter. */
static void touch_source(const tensor_box *box, char *global, unsigned offset, unsigned bytes,
                         void *data) {
    (void)global;
    const ptx_frame *frame = data;
    shared_touch(frame->lane, box->shared + offset, bytes, SHARED_ASYNC_READ,
                 frame->instruction->name);
}

void bulk_store(ptx_frame *frame, const tensor_box *box, bool adds) {
    vgpu_lane *lane = frame->lane;
    const char *name = frame->instruction->name;
    const unsigned span = tensor_box_span(box), rows = tensor_box_rows(box);
    box_row row;
    shared_at(box->shared, span, UNIT, name);
    tensor_box_walk(box, touch_source, frame);
    for (unsigned n = 0; n < rows; n++)
        if (tensor_box_row(box, n, &row))
            global_touch_async(lane, row.global, row.bytes, adds ? GLOBAL_ATOMIC : GLOBAL_WRITE,
                               name);
    shared_hold(box->shared, span);
    const bulk_writing store = {.async = {.land = land_writing}, .box = *box, .adds = adds};
    bulk_writing *writing = (bulk_writing *)async_start(&store.async, sizeof store);
    const bulk_reading read = {.async = {.land = land_reading}, .writing = writing};
    writing->reading = async_start(&read.async, sizeof read);
    link_store(lane, writing->reading);
    link_store(lane, &writing->async);
}

static void commit_group(ptx_frame *f) {
    f->lane->store_group++;
}

/* Shared memory of the groups before `group` may be overwritten now, not when it happens to
 * have been read. */
static void release_sources(vgpu_lane *lane, long group) {
    for (vgpu_async *a = lane->stores; a; a = a->next) {
        bulk_reading *reading = (bulk_reading *)a;
        if (a->group >= group || a->land != land_reading || reading->released)
            continue;
        async_finish(a);
        const tensor_box *box = &reading->writing->box;
        shared_release(box->shared, tensor_box_span(box));
        reading->released = true;
    }
}

static void wait_read(ptx_frame *f) {
    release_sources(f->lane, f->lane->store_group - (long)ptx_get(f, 0));
    lane_may_yield(f->lane);
}

static void show_rows(vgpu_lane *lane, const tensor_box *box) {
    const unsigned rows = tensor_box_rows(box);
    box_row row;
    for (unsigned n = 0; n < rows; n++)
        if (tensor_box_row(box, n, &row))
            global_landed(lane, row.global, row.bytes);
}

static void wait_group(ptx_frame *f) {
    vgpu_lane *lane = f->lane;
    const long group = lane->store_group - (long)ptx_get(f, 0);
    release_sources(lane, group);
    for (vgpu_async *a = lane->stores; a; a = a->next) {
        if (a->group >= group || a->land != land_writing)
            continue;
        async_finish(a);
        show_rows(lane, &((bulk_writing *)a)->box);
    }
    async_finish_groups(&lane->stores, group);
    lane_may_yield(lane);
}

/* ---- copies of bytes that lie side by side ---- */

static tensor_box line(const ptx_frame *f, char *global, unsigned shared, unsigned bytes,
                       box_type type) {
    const unsigned element = type == BOX_BYTES ? 1 : type == BOX_F32 ? 4 : 2;
    if (bytes == 0 || bytes % UNIT != 0 || (uintptr_t)global % UNIT != 0)
        vgpu_fail(CHECK_ALIGNMENT,
                  "%s: %u bytes at global address %p: both must be multiples of %d",
                  f->instruction->name, bytes, (void *)global, UNIT);
    return (tensor_box){.address = global,
                        .size = {bytes / element},
                        .box = {bytes / element},
                        .rank = 1,
                        .type = type,
                        .swizzle = UNIT,
                        .shared = shared};
}

/* [to], [from], bytes, [barrier] */
static void load_line(ptx_frame *f) {
    const tensor_box box = line(f, ptx_pointer(ptx_get(f, 1)), (unsigned)ptx_get(f, 0),
                                (unsigned)ptx_get(f, 2), BOX_BYTES);
    bulk_load(f, &box, (unsigned)ptx_get(f, 3));
    lane_yield(f->lane);
}

/* [to], [from], bytes. Groups of a reduction: type. */
static void store_line(ptx_frame *f) {
    static const box_type types[] = {BOX_F16, BOX_BF16, BOX_F32};
    const bool adds = f->instruction->option;
    const box_type type = adds ? types[f->instruction->choice[0]] : BOX_BYTES;
    const tensor_box box = line(f, ptx_pointer(ptx_get(f, 0)), (unsigned)ptx_get(f, 1),
                                (unsigned)ptx_get(f, 2), type);
    bulk_store(f, &box, adds);
    lane_yield(f->lane);
}

static void nothing(ptx_frame *f) {
    (void)f;
}

const ptx_row ptx_bulk_copies[] = {
    {"cp.async.bulk(.shared::cluster|.shared::cta).global.mbarrier::complete_tx::bytes",
     load_line, 0, 4, 4},
    {"cp.async.bulk.global.shared::cta.bulk_group", store_line, 0, 3, 3},
    {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add(.noftz.f16|.noftz.bf16|.f32)",
     store_line, 1, 3, 3},
    {"cp.async.bulk.prefetch.L2.global", nothing, 0, 2, 2},
    {"cp.async.bulk.commit_group", commit_group, 0, 0, 0},
    {"cp.async.bulk.wait_group.read", wait_read, 0, 1, 1},
    {"cp.async.bulk.wait_group", wait_group, 0, 1, 1},
    {0},
};
