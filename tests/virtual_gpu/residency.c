/* residency.c: the queued launches, and which of their blocks run at once. */
#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/residency.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/virtual_gpu/async.h"
#include "tests/virtual_gpu/barrier.h"
#include "tests/virtual_gpu/code.h"
#include "tests/virtual_gpu/ptx.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"
#include "tests/virtual_gpu/shared_memory.h"
#include "tests/virtual_gpu/virtual_gpu.h"

enum { RESIDENT_MAX = 4, PARAMS_UNIT = 64 };

vgpu_thread *vgpu_self;
vgpu_dim3 vgpu_grid_size, vgpu_block_size;

static vgpu_grid *queue; /* oldest first */
static vgpu_cluster *resident;
static unsigned resident_count, resident_most;
static long launches, blocks;
static bool changed; /* since the last launch_fill(): something may leave or start */
static bool broken;  /* a check failed */

int vgpu_multiprocessors(void) {
    const char *text = getenv("ATTEST_VIRTUAL_SMS");
    const int count = text ? atoi(text) : 0;
    return count > 0 ? count : 2;
}

vgpu_cluster *launch_resident(void) {
    return resident;
}

void launch_describe(char *name, size_t bytes, long *number) {
    const vgpu_lane *lane = vgpu_lane_now();
    const vgpu_grid *grid = lane ? lane->block->cluster->grid : queue;
    snprintf(name, bytes, "%s", grid ? grid->name : "");
    *number = grid ? grid->number : launches;
}

static void end_lane(vgpu_lane *lane);

/* Lanes begin and end here. */
static void lane_main(void) {
    vgpu_lane *lane = vgpu_lane_now();
    const vgpu_grid *grid = lane->block->cluster->grid;
    grid->entry->run(grid->params);
    end_lane(lane);
    fiber_end(&lane->fiber);
}

static void make_lane(vgpu_block *block, int number) {
    vgpu_lane *lane = &block->lanes[number];
    vgpu_warp *warp = &block->warps[number / WARP_LANES];
    lane->is.thread = (vgpu_dim3){(unsigned)number, 0, 0};
    lane->is.block = block->id;
    lane->warp = warp;
    lane->block = block;
    lane->index = number % WARP_LANES;
    lane->number = number;
    lane->state = LANE_ENDED;
    warp->lanes[warp->count++] = lane;
    warp->live |= 1u << lane->index;
    fiber_prepare(&lane->fiber, lane_main);
    lane_wake(lane);
}

static void make_block(vgpu_block *block, vgpu_cluster *cluster, unsigned n, int rank) {
    const vgpu_grid *grid = cluster->grid;
    const unsigned in_plane = grid->size.x * (grid->size.y / grid->cluster);
    const unsigned plane = n % in_plane;
    block->id =
        (vgpu_dim3){plane % grid->size.x, plane / grid->size.x * grid->cluster + (unsigned)rank,
                    n / in_plane};
    block->number = ++blocks;
    block->rank = rank;
    block->cluster = cluster;
    block->lanes_count = block->live = (int)grid->threads.x;
    block->warps_count = (block->lanes_count + WARP_LANES - 1) / WARP_LANES;
    block->lanes = allocate_zeroed((size_t)block->lanes_count, sizeof *block->lanes);
    block->warps = allocate_zeroed((size_t)block->warps_count, sizeof *block->warps);
    shared_make(block, grid->entry, grid->dynamic_bytes);
    for (int w = 0; w < block->warps_count; w++) {
        block->warps[w].block = block;
        block->warps[w].index = w;
        block->warps[w].priority = random_part();
    }
    for (int i = 0; i < block->lanes_count; i++)
        make_lane(block, i);
    races_block_begin(block);
    for (int i = 0; i < block->lanes_count; i++)
        races_launches_known(&block->lanes[i], grid->known);
}

static void start_cluster(vgpu_grid *grid) {
    vgpu_cluster *cluster = allocate_zeroed(1, sizeof *cluster);
    cluster->grid = grid;
    cluster->count = cluster->live = (int)grid->cluster;
    cluster->shared_base = shared_draw_base(grid->entry);
    cluster->blocks = allocate_zeroed(grid->cluster, sizeof *cluster->blocks);
    const unsigned n = grid->order[grid->started++];
    for (int rank = 0; rank < cluster->count; rank++)
        make_block(&cluster->blocks[rank], cluster, n, rank);
    cluster->next = resident;
    resident = cluster;
    resident_count++;
}

static void free_block(vgpu_block *block) {
    races_block_end(block);
    barriers_free(block);
    for (int i = 0; i < block->lanes_count; i++) {
        races_drop(block->lanes[i].made_barriers);
        async_free_list(&block->lanes[i].copies);
        async_free_list(&block->lanes[i].stores);
        fiber_release(&block->lanes[i].fiber);
    }
    for (int w = 0; w < block->warps_count; w++)
        wgmma_free(&block->warps[w]);
    shared_free(block);
    free(block->lanes);
    free(block->warps);
}

static void free_cluster(vgpu_cluster *cluster) {
    for (int b = 0; b < cluster->count; b++)
        free_block(&cluster->blocks[b]);
    races_forget(&cluster->races);
    free(cluster->blocks);
    free(cluster);
    resident_count--;
}

static void free_grid(vgpu_grid *grid) {
    free(grid->order);
    free(grid->params);
    free(grid);
}

static bool has_ended(const vgpu_grid *grid) {
    return grid->ended == grid->clusters;
}

static void wake_next(const vgpu_grid *grid) {
    for (vgpu_cluster *c = resident; c; c = c->next)
        if (c->grid == grid->next)
            for (int b = 0; b < c->count; b++)
                for (int i = 0; i < c->blocks[b].lanes_count; i++)
                    if (c->blocks[b].lanes[i].state == LANE_AT_PREVIOUS)
                        lane_wake(&c->blocks[b].lanes[i]);
}

/* Clusters without lanes and without anything in flight leave; finished grids leave the queue,
 * in order. */
static void retire(void) {
    for (vgpu_cluster **link = &resident; *link;) {
        vgpu_cluster *cluster = *link;
        if (cluster->live > 0 || async_serves(cluster)) {
            changed = changed || cluster->live == 0;
            link = &cluster->next;
            continue;
        }
        *link = cluster->next;
        cluster->grid->ended++;
        free_cluster(cluster);
    }
    while (queue && has_ended(queue)) {
        vgpu_grid *grid = queue;
        wake_next(grid);
        queue = grid->next;
        free_grid(grid);
    }
}

/* Whether blocks of `grid` may start; `before` is the grid ahead of it. */
static bool may_start(const vgpu_grid *before, const vgpu_grid *grid) {
    return !before || (grid->programmatic && before->started == before->clusters &&
                       before->allowing == before->clusters * before->cluster);
}

/* Static shared memory exists once per kernel: such blocks do not run beside others. */
static bool has_static(const vgpu_grid *grid) {
    return grid->entry->static_begin != grid->entry->static_end;
}

static bool has_room(const vgpu_grid *grid) {
    const bool alone = has_static(grid) || (resident && has_static(resident->grid));
    return resident_count < (alone ? 1 : resident_most);
}

bool launch_fill(void) {
    if (!changed)
        return true;
    changed = false;
    retire();
    const vgpu_grid *before = NULL;
    for (vgpu_grid *grid = queue; grid && may_start(before, grid);
         before = grid, grid = grid->next)
        while (grid->started < grid->clusters && has_room(grid))
            start_cluster(grid);
    return queue != NULL;
}

static void check_end(const vgpu_lane *lane) {
    for (const vgpu_async *a = lane->copies; a; a = a->next)
        if (!a->done)
            vgpu_fail(CHECK_LIFETIME,
                      "a thread ends without having waited for its cp.async of "
                      "%s:%d",
                      a->started.file, a->started.line);
    if (lane->warp->arrived && lane->warp->mask >> lane->index & 1)
        vgpu_fail(CHECK_CONVERGENCE,
                  "a lane ends while lanes %08x of its warp wait for it in an operation",
                  lane->warp->arrived);
}

void grid_allow_next(vgpu_lane *lane) {
    vgpu_block *block = lane->block;
    if (!block->allows_next)
        block->cluster->grid->allowing++;
    block->allows_next = true;
    changed = true;
}

static void end_lane(vgpu_lane *lane) {
    vgpu_block *block = lane->block;
    check_end(lane);
    wgmma_lane_ended(lane);
    lane_block(lane, LANE_ENDED);
    lane->warp->live &= ~(1u << lane->index);
    block->live--;
    barrier_lane_ended(lane);
    if (block->live > 0)
        return;
    async_block_ended(block);
    shared_block_ended(block);
    grid_allow_next(lane);
    block->cluster->live--;
}

void grid_wait_previous(vgpu_lane *lane) {
    const vgpu_grid *grid = lane->block->cluster->grid;
    while (queue != grid)
        lane_block(lane, LANE_AT_PREVIOUS);
    races_launches_known(lane, grid->number);
}

static void shuffle(unsigned *order, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        order[i] = i;
    for (unsigned i = count; i > 1; i--) {
        const unsigned j = random_below(i), x = order[i - 1];
        order[i - 1] = order[j];
        order[j] = x;
    }
}

static void *copy_params(const void *params, size_t bytes) {
    void *copy = allocate_aligned(PARAMS_UNIT, bytes);
    memcpy(copy, params, bytes);
    return copy;
}

void vgpu_enqueue(const vgpu_launch *launch) {
    if (broken)
        return;
    if (queue && !launch->programmatic)
        vgpu_finish();
    vgpu_grid **last = &queue;
    while (*last)
        last = &(*last)->next;
    vgpu_grid *grid = allocate_zeroed(1, sizeof *grid);
    grid->entry = code_entry(launch->code);
    grid->params_bytes = grid->entry->params_bytes;
    grid->params = copy_params(launch->params, grid->params_bytes);
    snprintf(grid->name, sizeof grid->name, "%s", launch->name);
    grid->number = ++launches;
    grid->programmatic = launch->programmatic && queue;
    grid->known = grid->number - (grid->programmatic ? 1 : 0);
    grid->size = (vgpu_dim3){launch->grid[0], launch->grid[1], launch->grid[2]};
    grid->threads = (vgpu_dim3){launch->threads, 1, 1};
    grid->dynamic_bytes = launch->dynamic_bytes;
    grid->cluster = launch->cluster ? launch->cluster : 1;
    grid->clusters = grid->size.x * grid->size.y * grid->size.z / grid->cluster;
    grid->order = allocate_zeroed(grid->clusters, sizeof *grid->order);
    *last = grid;
}

static void clear(void) {
    while (resident) {
        vgpu_cluster *cluster = resident;
        resident = cluster->next;
        free_cluster(cluster);
    }
    async_drop_all();
    while (queue) {
        vgpu_grid *grid = queue;
        queue = grid->next;
        free_grid(grid);
    }
}

bool vgpu_finish(void) {
    if (broken || !queue)
        return !broken;
    schedule_begin(queue->number);
    resident_most = 1 + random_below(RESIDENT_MAX);
    for (vgpu_grid *grid = queue; grid; grid = grid->next)
        shuffle(grid->order, grid->clusters);
    changed = true;
    schedule_run();
    if (!report_failed())
        return true;
    report_print();
    report_clear();
    clear();
    broken = true;
    return false;
}

void vgpu_reset(void) {
    broken = false;
}
