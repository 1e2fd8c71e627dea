/* checks.c: a failed check ends the launch and reports which lane did what and where. */
#include "tests/virtual_gpu/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/virtual_gpu/code.h"
#include "tests/virtual_gpu/residency.h"
#include "tests/virtual_gpu/lanes.h"
#include "tests/virtual_gpu/schedule.h"
#include "tests/virtual_gpu/virtual_gpu.h"

enum { TEXT_BYTES = 16384 };

static struct {
    bool failed;
    vgpu_check check;
    char text[TEXT_BYTES];
    char kernel[128];
    long launch;
    bool by_lane;
    vgpu_dim3 block;
    int warp, lane;
    char at[256];
} report;

const char *check_name(vgpu_check check) {
    static const char *const names[CHECKS] = {
        [CHECK_IN_FLIGHT] = "in flight",
        [CHECK_SOURCE] = "source",
        [CHECK_ACCUMULATOR] = "accumulator",
        [CHECK_PROXY] = "proxy fence",
        [CHECK_COUNT] = "count",
        [CHECK_BOUNDS] = "bounds",
        [CHECK_ALIGNMENT] = "alignment",
        [CHECK_UNINITIALISED] = "uninitialised",
        [CHECK_DEADLOCK] = "deadlock",
        [CHECK_RACE] = "race",
        [CHECK_CONVERGENCE] = "convergence",
        [CHECK_INSTRUCTION] = "instruction",
        [CHECK_LIFETIME] = "lifetime",
    };
    return names[check];
}

static void remember_lane(const vgpu_lane *lane) {
    report.by_lane = true;
    report.block = lane->is.block;
    report.warp = lane->warp->index;
    report.lane = lane->index;
    if (!lane->code || !code_place(lane->code, report.at, sizeof report.at))
        snprintf(report.at, sizeof report.at, "%s:%d",
                 lane->at.file ? lane->at.file : "(start)", lane->at.line);
}

_Noreturn void vgpu_fail(vgpu_check check, const char *format, ...) {
    vgpu_lane *lane = vgpu_lane_now();
    if (!report.failed) {
        va_list list;
        va_start(list, format);
        vsnprintf(report.text, sizeof report.text, format, list);
        va_end(list);
        report.failed = true;
        report.check = check;
        launch_describe(report.kernel, sizeof report.kernel, &report.launch);
        report.by_lane = false;
        if (lane)
            remember_lane(lane);
    }
    schedule_abandon();
}

bool report_failed(void) {
    return report.failed;
}

void report_clear(void) {
    report.failed = false;
}

/* The command that made this launch, from this process's arguments. */
static void print_command(void) {
    FILE *file = fopen("/proc/self/cmdline", "r");
    char text[4096];
    const size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    for (size_t i = 0; i + 1 < size; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    text[size] = '\0';
    fprintf(stderr, "  again:    ATTEST_VIRTUAL_SEED=%llu ATTEST_VIRTUAL_SMS=%d %s\n",
            (unsigned long long)schedule_seed(), vgpu_multiprocessors(), text);
}

void report_print(void) {
    if (!report.failed)
        return;
    fprintf(stderr, "virtual GPU: %s: %s\n", check_name(report.check), report.text);
    if (report.by_lane)
        fprintf(stderr, "  where:    %s, block (%u, %u, %u), warp %d, lane %d\n", report.at,
                report.block.x, report.block.y, report.block.z, report.warp, report.lane);
    fprintf(stderr, "  launch:   %ld, %s\n  schedule: %s\n", report.launch, report.kernel,
            schedule_words());
    print_command();
}

/* A growing text; what does not fit is dropped. */
typedef struct table {
    char text[TEXT_BYTES - 64];
    size_t used;
} table;

static void add(table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(table *t, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(t->text + t->used, sizeof t->text - t->used, format, list);
    va_end(list);
    if (length > 0)
        t->used += (size_t)length < sizeof t->text - t->used ? (size_t)length
                                                             : sizeof t->text - t->used - 1;
}

static bool same_wait(const vgpu_lane *a, const vgpu_lane *b) {
    return a->state == b->state && a->waits_for == b->waits_for && a->parity == b->parity &&
           a->at.line == b->at.line && a->at.file == b->at.file;
}

static void describe_wait(table *t, const vgpu_lane *lane) {
    const vgpu_block *block = lane->block;
    switch (lane->state) {
    case LANE_IN_WARP:
        add(t, "an operation of the warp, here lanes %08x of %08x", lane->warp->arrived,
            lane->warp->mask);
        break;
    case LANE_AT_MBARRIER:
        add(t, "mbarrier +0x%x, parity %d", (lane->waits_for & 0xffffffu) - block->base,
            lane->parity);
        for (const vgpu_mbarrier *m = block->mbarriers; m; m = m->next)
            if (m->address == lane->waits_for)
                add(t, " (phase %u, %d of %d arrivals and %lld bytes to come)", m->phase,
                    m->pending, m->expected, m->bytes);
        break;
    case LANE_AT_BARRIER:
        add(t, "barrier %u, %d of %d there", lane->waits_for,
            block->barriers[lane->waits_for].arrived,
            block->barriers[lane->waits_for].expected);
        break;
    case LANE_AT_CLUSTER:
        add(t, "the barrier of the cluster, %d of %d threads there", block->cluster->arrived,
            block->cluster->count * block->lanes_count);
        break;
    case LANE_AT_PREVIOUS:
        add(t, "the previous kernel");
        break;
    case LANE_SLEEPS:
        add(t, "what others write to memory: it polls");
        break;
    default:
        break;
    }
}

static void describe_warp(table *t, const vgpu_warp *warp) {
    unsigned told = 0;
    for (int i = 0; i < warp->count; i++) {
        const vgpu_lane *lane = warp->lanes[i];
        if (lane->state == LANE_ENDED || told >> i & 1)
            continue;
        unsigned alike = 0;
        for (int j = i; j < warp->count; j++)
            if (same_wait(lane, warp->lanes[j]))
                alike |= 1u << j;
        told |= alike;
        add(t, "\n  block (%u, %u, %u) warp %d lanes %08x at %s:%d wait for ", lane->is.block.x,
            lane->is.block.y, lane->is.block.z, warp->index, alike,
            lane->at.file ? lane->at.file : "(start)", lane->at.line);
        describe_wait(t, lane);
    }
}

_Noreturn void report_deadlock(void) {
    static table t;
    t.used = 0;
    t.text[0] = '\0';
    for (const vgpu_cluster *c = launch_resident(); c; c = c->next)
        for (int b = 0; b < c->count; b++)
            for (int w = 0; w < c->blocks[b].warps_count; w++)
                describe_warp(&t, &c->blocks[b].warps[w]);
    vgpu_fail(CHECK_DEADLOCK, "no lane can continue:%s", t.text);
}
