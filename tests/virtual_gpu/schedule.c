/* schedule.c: chooses the next lane to run, from a seed. */
#include "tests/virtual_gpu/schedule.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/virtual_gpu/async.h"
#include "tests/virtual_gpu/residency.h"
#include "tests/virtual_gpu/ptx.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/shared_memory.h"

static struct {
    bool by_priority;
    double landing; /* probability that something lands before a step; 0: only when nothing else
                     * can continue */
    unsigned change; /* one step in this many changes a warp's priority */
    long drift;      /* instructions by which lanes of a warp may be apart; -1: any */
    int sleeper;     /* this lane of every warp continues only when no other lane can; -1:
                      * none */
    uint64_t random;
    char words[96];
} plan;

static jmp_buf abandon;
static long sleepers;      /* lanes that sleep */
static long idle_rounds;   /* rounds in which all sleepers were woken and nothing else
                            * happened */
static vgpu_lane *resumed; /* whose stack is in use; NULL: the scheduler's */

uint64_t random_bits(void) {
    plan.random ^= plan.random << 13;
    plan.random ^= plan.random >> 7;
    plan.random ^= plan.random << 17;
    return plan.random * UINT64_C(2685821657736338717) >> 16;
}

unsigned random_below(unsigned count) {
    return (unsigned)(random_bits() % count);
}

double random_part(void) {
    return (double)(random_bits() & 0xffffffff) / 0x1p32;
}

uint64_t schedule_seed(void) {
    const char *text = getenv("ATTEST_VIRTUAL_SEED");
    return text && *text ? strtoull(text, NULL, 10) : 1;
}

/* Whether the environment has this word. `value` gets the text after it. */
static bool asks_for(const char *word, const char **value) {
    const char *text = getenv("ATTEST_VIRTUAL_SCHEDULE");
    const size_t length = strlen(word);
    while (text && *text) {
        if (strncmp(text, word, length) == 0) {
            if (value)
                *value = text + length;
            return true;
        }
        text = strchr(text, ',');
        text = text ? text + 1 : NULL;
    }
    return false;
}

static void draw_order(void) {
    plan.by_priority = random_below(2);
    plan.change = 1u << (4 + random_below(9));
    if (asks_for("uniform", NULL))
        plan.by_priority = false;
    if (asks_for("priorities", NULL))
        plan.by_priority = true;
}

static const char *draw_landing(void) {
    static const struct {
        const char *word;
        double chances[2];
    } kinds[] = {{"early", {0.5, 0.05}}, {"late", {0.01, 0.002}}, {"last", {0, 0}}};
    unsigned kind = random_below(3);
    const unsigned which = random_below(2);
    for (unsigned i = 0; i < 3; i++)
        if (asks_for(kinds[i].word, NULL))
            kind = i;
    plan.landing = kinds[kind].chances[which];
    return kinds[kind].word;
}

static void draw_drift(void) {
    const char *value;
    plan.drift = (long)random_below(4);
    if (plan.drift == 3)
        plan.drift = -1;
    if (asks_for("drift=", &value))
        plan.drift = strncmp(value, "free", 4) == 0 ? -1 : atol(value);
    const unsigned sleeper = random_below(2 * WARP_LANES);
    plan.sleeper = plan.drift < 0 && sleeper < WARP_LANES ? (int)sleeper : -1;
    if (plan.drift < 0 && asks_for("sleeper=", &value))
        plan.sleeper = atoi(value);
}

void schedule_begin(long launch) {
    plan.random =
        (schedule_seed() + 1000003 * (uint64_t)launch) * UINT64_C(0x9e3779b97f4a7c15) +
        0x1234567;
    for (int i = 0; i < 8; i++)
        random_bits();
    draw_order();
    const char *landing = draw_landing();
    draw_drift();
    char drift[24] = "free";
    if (plan.drift >= 0)
        snprintf(drift, sizeof drift, "%ld", plan.drift);
    char sleeper[24] = "";
    if (plan.sleeper >= 0)
        snprintf(sleeper, sizeof sleeper, ",sleeper=%d", plan.sleeper);
    snprintf(plan.words, sizeof plan.words, "%s,%s,drift=%s%s",
             plan.by_priority ? "priorities" : "uniform", landing, drift, sleeper);
}

const char *schedule_words(void) {
    return plan.words;
}

static void stop_running(vgpu_lane *lane) {
    vgpu_warp *warp = lane->warp;
    warp->runs[lane->slot] = warp->runs[--warp->runs_count];
    warp->runs[lane->slot]->slot = lane->slot;
}

void lane_block(vgpu_lane *lane, vgpu_state state) {
    stop_running(lane);
    lane->state = state;
    if (state != LANE_ENDED)
        fiber_leave(&lane->fiber);
}

void lane_wake(vgpu_lane *lane) {
    if (lane->state == LANE_RUNS)
        return;
    vgpu_warp *warp = lane->warp;
    lane->state = LANE_RUNS;
    lane->slot = warp->runs_count;
    warp->runs[warp->runs_count++] = lane;
    if (lane->resumed < warp->slowest)
        warp->slowest = lane->resumed;
}

void lane_yield(vgpu_lane *lane) {
    fiber_leave(&lane->fiber);
}

void lane_may_yield(vgpu_lane *lane) {
    if (random_below(2))
        lane_yield(lane);
}

void lane_sleep(vgpu_lane *lane) {
    lane->slept = lane->resumed;
    sleepers++;
    lane_block(lane, LANE_SLEEPS);
}

void vgpu_pause(const char *file, int line) {
    lane_may_yield(vgpu_lane_at(file, line));
}

/* The runnable lane that was resumed least often. */
static vgpu_lane *slowest_of(vgpu_warp *warp) {
    vgpu_lane *slowest = warp->runs[0];
    for (int i = 1; i < warp->runs_count && slowest->resumed > warp->slowest; i++)
        if (warp->runs[i]->resumed < slowest->resumed)
            slowest = warp->runs[i];
    warp->slowest = slowest->resumed;
    return slowest;
}

/* Any lane of the warp that is not ahead of the slowest runnable one by more than the allowed
 * drift. */
static vgpu_lane *lane_of(vgpu_warp *warp) {
    vgpu_lane *lane = warp->runs[random_below((unsigned)warp->runs_count)];
    if (plan.drift < 0 || lane->resumed <= warp->slowest + plan.drift)
        return lane;
    vgpu_lane *slowest = slowest_of(warp);
    return lane->resumed <= slowest->resumed + plan.drift ? lane : slowest;
}

/* Called for every resident warp until it returns that it has found what it wants. */
typedef bool (*warp_visitor)(vgpu_warp *warp, void *data);

static void visit_warps(warp_visitor seen, void *data) {
    for (vgpu_cluster *c = launch_resident(); c; c = c->next)
        for (int b = 0; b < c->count; b++)
            for (int w = 0; w < c->blocks[b].warps_count; w++)
                if (seen(&c->blocks[b].warps[w], data))
                    return;
}

typedef struct choice {
    int count; /* lanes, or warps, still to be passed over */
    vgpu_warp *found;
} choice;

static bool count_lanes(vgpu_warp *warp, void *data) {
    ((choice *)data)->count += warp->runs_count;
    return false;
}

static bool find_lane(vgpu_warp *warp, void *data) {
    choice *c = data;
    if (c->count < warp->runs_count) {
        c->found = warp;
        return true;
    }
    c->count -= warp->runs_count;
    return false;
}

static bool find_first(vgpu_warp *warp, void *data) {
    choice *c = data;
    if (warp->runs_count > 0 && (!c->found || warp->priority > c->found->priority))
        c->found = warp;
    return false;
}

static vgpu_lane *any_lane(void) {
    choice c = {0};
    if (plan.by_priority) {
        visit_warps(find_first, &c);
        if (c.found && random_below(plan.change) == 0)
            c.found->priority = random_part();
        return c.found ? lane_of(c.found) : NULL;
    }
    visit_warps(count_lanes, &c);
    if (c.count == 0)
        return NULL;
    c.count = (int)random_below((unsigned)c.count);
    visit_warps(find_lane, &c);
    return lane_of(c.found);
}

/* Enough attempts that a sleeping lane is rarely chosen while others can continue. */
static vgpu_lane *next_lane(void) {
    enum { TRIES = 16 };
    vgpu_lane *lane = any_lane();
    for (int i = 0; lane && lane->index == plan.sleeper && i < TRIES; i++)
        lane = any_lane();
    return lane;
}

static bool count_products(vgpu_warp *warp, void *data) {
    ((choice *)data)->count += wgmma_has_work(warp);
    return false;
}

static bool find_product(vgpu_warp *warp, void *data) {
    choice *c = data;
    if (!wgmma_has_work(warp))
        return false;
    c->found = warp;
    return c->count-- == 0;
}

/* A copy lands, or a product is computed. False: nothing is in flight. */
static bool land_something(void) {
    choice c = {0};
    visit_warps(count_products, &c);
    const unsigned copies = async_pending();
    if (copies + (unsigned)c.count == 0)
        return false;
    const unsigned which = random_below(copies + (unsigned)c.count);
    if (which < copies) {
        async_land(which);
        return true;
    }
    c.count = (int)(which - copies);
    visit_warps(find_product, &c);
    shared_for(c.found->block);
    wgmma_run_any(c.found);
    return true;
}

static bool wake_sleeping(vgpu_warp *warp, void *data) {
    (void)data;
    for (int i = 0; i < warp->count; i++)
        if (warp->lanes[i]->state == LANE_SLEEPS) {
            lane_wake(warp->lanes[i]);
            sleepers--;
        }
    return false;
}

/* Whether the lane has done anything but poll and sleep again. */
static bool is_awake(const vgpu_lane *lane) {
    enum { LOOK = 16 }; /* instructions */
    return lane->slept == 0 || lane->resumed > lane->slept + LOOK;
}

/* Wake all lanes that poll memory. False: there are none, or they have polled often enough:
 * what they wait for will not come. */
static bool wake_sleepers(void) {
    enum { ROUNDS_MOST = 10000 };
    if (sleepers == 0 || ++idle_rounds > ROUNDS_MOST)
        return false;
    visit_warps(wake_sleeping, NULL);
    return true;
}

static void go_on(vgpu_lane *lane) {
    const vgpu_grid *grid = lane->block->cluster->grid;
    vgpu_grid_size = grid->size;
    vgpu_block_size = grid->threads;
    vgpu_self = &lane->is;
    lane->resumed++;
    if (is_awake(lane))
        idle_rounds = 0;
    resumed = lane;
    fiber_resume(&lane->fiber);
    resumed = NULL;
    vgpu_self = NULL;
}

_Noreturn void schedule_abandon(void) {
    if (resumed)
        fiber_end(&resumed->fiber);
    longjmp(abandon, 1);
}

void schedule_run(void) {
    enum { NAP = 64 }; /* steps, about, if others can go on */
    vgpu_self = NULL;
    sleepers = idle_rounds = 0;
    if (setjmp(abandon))
        return;
    while (launch_fill()) {
        if (plan.landing > 0 && random_part() < plan.landing)
            land_something();
        if (sleepers > 0 && random_below(NAP) == 0)
            visit_warps(wake_sleeping, NULL);
        vgpu_lane *lane = next_lane();
        if (lane)
            go_on(lane);
        else if (!land_something() && !wake_sleepers())
            report_deadlock();
        if (report_failed())
            return;
    }
}
