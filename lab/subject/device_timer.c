/* device_timer.c: runs replayed from a graph or launched, timed with events or with the host's
 * clock. */
#include "lab/subject/device_timer.h"

#include <stdlib.h>

#include "cuda/device.h"
#include "cuda/driver.h"
#include "lab/base/clock.h"

/* A wait longer than this, in nanoseconds, was for real work. */
enum { LATE_NS = 50000 };

const char *lab_timer_name(lab_timer kind) {
    static const char *const names[LAB_TIMER_COUNT] = {"graph", "events", "latency"};
    return names[kind];
}

static struct att_cuda_device *gpu_of(const lab_device_timer *t) {
    return t->runs.mirrors[0]->gpu;
}

static void *stream_of(const lab_device_timer *t) {
    return t->runs.mirrors[0]->stream;
}

/* On failure, copies the library's error message. */
static bool held(att_status status, lab_message *why) {
    return status == ATT_OK || lab_fail(why, "%s", att_last_error()->text);
}

/* Launch the runs of one sample on the stream. */
static bool launch(const lab_device_timer *t, lab_message *why) {
    const lab_timed_runs *r = &t->runs;
    for (size_t i = 0; i < r->calls + r->extra; i++) {
        const lab_mirror *m = r->mirrors[i % r->mirror_count];
        if (lab_prepared_run(r->prepared, &m->any, m->workspace, stream_of(t), why) != ATT_OK)
            return false;
    }
    return true;
}

static bool capture(lab_device_timer *t, const att_cuda_driver *cu, lab_message *why) {
    CUgraph graph = NULL;
    if (!held(ATT_CUDA(cu, NULL, StreamBeginCapture, stream_of(t),
                       CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
              why))
        return false;
    const bool launched = launch(t, why);
    const CUresult ended = cu->StreamEndCapture(stream_of(t), &graph);
    t->graph = graph;
    return launched && held(att_cuda_check(cu, ended, "cuStreamEndCapture", NULL), why);
}

static bool prepare_graph(lab_device_timer *t, const att_cuda_driver *cu, lab_message *why) {
    CUgraphExec exec = NULL;
    if (!capture(t, cu, why) ||
        !held(ATT_CUDA(cu, NULL, GraphInstantiateWithFlags, &exec, t->graph, 0), why))
        return false;
    t->exec = exec;
    return held(ATT_CUDA(cu, NULL, GraphUpload, exec, stream_of(t)), why);
}

static bool prepare(lab_device_timer *t, lab_message *why) {
    const att_cuda_driver *cu = att_cuda_device_driver(gpu_of(t));
    CUevent start = NULL, end = NULL;
    if (t->kind == LAB_TIMER_GRAPH && !prepare_graph(t, cu, why))
        return false;
    if (!held(ATT_CUDA(cu, NULL, EventCreate, &start, CU_EVENT_DEFAULT), why))
        return false;
    t->start = start;
    if (!held(ATT_CUDA(cu, NULL, EventCreate, &end, CU_EVENT_DEFAULT), why))
        return false;
    t->end = end;
    return true;
}

bool lab_device_timer_open_runs(lab_device_timer *t, lab_timer kind, const lab_timed_runs *runs,
                                lab_message *why) {
    *t = (lab_device_timer){.kind = kind, .runs = *runs};
    if (!held(att_cuda_device_enter(gpu_of(t)), why)) {
        *t = (lab_device_timer){.runs = {.prepared = NULL}};
        return false;
    }
    const bool ok = prepare(t, why);
    att_cuda_device_leave(gpu_of(t));
    if (!ok)
        lab_device_timer_close(t);
    return ok;
}

bool lab_device_timer_open(lab_device_timer *t, lab_mirror *mirror,
                           const lab_prepared *prepared, size_t calls, lab_message *why) {
    const lab_timed_runs runs = {
        .prepared = prepared, .mirrors = &mirror, .mirror_count = 1, .calls = calls};
    if (!lab_device_timer_open_runs(t, LAB_TIMER_GRAPH, &runs, why))
        return false;
    t->only = mirror;
    t->runs.mirrors = &t->only;
    return true;
}

/* Enqueue the runs of one sample, with the graph if there is one. */
static bool enqueue(lab_device_timer *t, lab_message *why) {
    const att_cuda_driver *cu = att_cuda_device_driver(gpu_of(t));
    return t->exec ? held(ATT_CUDA(cu, NULL, GraphLaunch, t->exec, stream_of(t)), why)
                   : launch(t, why);
}

static bool wait(const lab_device_timer *t, lab_message *why) {
    const att_cuda_driver *cu = att_cuda_device_driver(gpu_of(t));
    return held(ATT_CUDA(cu, NULL, StreamSynchronize, stream_of(t)), why);
}

static bool between_events(lab_device_timer *t, double *ns, lab_message *why) {
    const att_cuda_driver *cu = att_cuda_device_driver(gpu_of(t));
    float milliseconds = 0.0f;
    const bool ok =
        held(ATT_CUDA(cu, NULL, EventRecord, t->start, stream_of(t)), why) && enqueue(t, why) &&
        held(ATT_CUDA(cu, NULL, EventRecord, t->end, stream_of(t)), why) &&
        held(ATT_CUDA(cu, NULL, EventSynchronize, t->end), why) &&
        held(ATT_CUDA(cu, NULL, EventElapsedTime, &milliseconds, t->start, t->end), why);
    *ns = 1e6 * (double)milliseconds;
    return ok;
}

static bool by_the_host(lab_device_timer *t, double *ns, lab_message *why) {
    if (!wait(t, why))
        return false;
    const uint64_t before = lab_clock_ns();
    const bool ok = launch(t, why);
    *ns = (double)(lab_clock_ns() - before);
    return ok && wait(t, why);
}

/* The stream is empty now, and the rest of the device should be too. If this wait takes longer
 * than the same wait right after it, when the device is certainly idle, it was for work that
 * the events did not see. */
static bool look_elsewhere(lab_device_timer *t, lab_message *why) {
    const att_cuda_driver *cu = att_cuda_device_driver(gpu_of(t));
    uint64_t took[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        const uint64_t before = lab_clock_ns();
        if (!held(att_cuda_check(cu, cu->CtxSynchronize(), "cuCtxSynchronize", NULL), why))
            return false;
        took[i] = lab_clock_ns() - before;
    }
    t->late += took[0] > took[1] + LATE_NS;
    t->samples++;
    return true;
}

bool lab_device_timer_missed_work(const lab_device_timer *t) {
    return 2 * t->late > t->samples;
}

bool lab_device_timer_lead(lab_device_timer *t, lab_message *why) {
    if (!held(att_cuda_device_enter(gpu_of(t)), why))
        return false;
    const bool ok = enqueue(t, why) && (t->kind != LAB_TIMER_LATENCY || wait(t, why));
    att_cuda_device_leave(gpu_of(t));
    return ok;
}

bool lab_device_timer_sample(lab_device_timer *t, double *ns, lab_message *why) {
    *ns = 0.0;
    if (!held(att_cuda_device_enter(gpu_of(t)), why))
        return false;
    const bool ok =
        (t->kind == LAB_TIMER_LATENCY ? by_the_host(t, ns, why) : between_events(t, ns, why)) &&
        look_elsewhere(t, why);
    att_cuda_device_leave(gpu_of(t));
    *ns /= (double)t->runs.calls;
    return ok;
}

static bool count_nodes(const lab_device_timer *t, lab_graph_nodes *nodes, lab_message *why) {
    const att_cuda_driver *cu = att_cuda_device_driver(gpu_of(t));
    size_t count = 0;
    if (!held(ATT_CUDA(cu, NULL, GraphGetNodes, t->graph, NULL, &count), why))
        return false;
    void **list = calloc(count + 1, sizeof(void *));
    if (!list)
        return lab_fail(why, "no memory for %zu nodes", count);
    bool ok =
        held(ATT_CUDA(cu, NULL, GraphGetNodes, t->graph, (CUgraphNode *)list, &count), why);
    for (size_t i = 0; ok && i < count; i++) {
        int type = -1;
        ok = held(ATT_CUDA(cu, NULL, GraphNodeGetType, list[i], &type), why);
        size_t *kind = type == CU_GRAPH_NODE_TYPE_KERNEL   ? &nodes->kernels
                       : type == CU_GRAPH_NODE_TYPE_MEMCPY ? &nodes->copies
                       : type == CU_GRAPH_NODE_TYPE_MEMSET ? &nodes->fills
                                                           : &nodes->others;
        ++*kind;
    }
    free(list);
    return ok;
}

bool lab_device_timer_nodes(const lab_device_timer *t, lab_graph_nodes *nodes,
                            lab_message *why) {
    *nodes = (lab_graph_nodes){0};
    if (!t->graph)
        return true;
    if (!held(att_cuda_device_enter(gpu_of(t)), why))
        return false;
    const bool ok = count_nodes(t, nodes, why);
    att_cuda_device_leave(gpu_of(t));
    return ok;
}

void lab_device_timer_close(lab_device_timer *t) {
    if (t->runs.prepared && att_cuda_device_enter(gpu_of(t)) == ATT_OK) {
        const att_cuda_driver *cu = att_cuda_device_driver(gpu_of(t));
        if (t->exec)
            cu->GraphExecDestroy(t->exec);
        if (t->graph)
            cu->GraphDestroy(t->graph);
        if (t->start)
            cu->EventDestroy(t->start);
        if (t->end)
            cu->EventDestroy(t->end);
        att_cuda_device_leave(gpu_of(t));
    }
    *t = (lab_device_timer){.runs = {.prepared = NULL}};
}
