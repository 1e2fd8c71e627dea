/* device_timer.c: runs captured into a graph and timed by events. */
#include "lab/device_timer.h"

#include "cuda/device.h"
#include "cuda/driver.h"

/* Everything between these two is on the stream being captured. */
static att_status capture(const att_cuda_driver *cu, lab_mirror *m, const att_plan *plan,
                          size_t calls, CUgraph *graph) {
    att_status status =
        ATT_CUDA(cu, NULL, StreamBeginCapture, m->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (status != ATT_OK)
        return status;
    for (size_t i = 0; status == ATT_OK && i < calls; i++)
        status = att_plan_run(plan, &m->args, m->workspace, m->stream);
    const CUresult ended = cu->StreamEndCapture(m->stream, graph);
    return status != ATT_OK ? status : att_cuda_check(cu, ended, "cuStreamEndCapture", NULL);
}

static att_status prepare(lab_device_timer *t, const att_plan *plan) {
    const att_cuda_driver *cu = att_cuda_device_driver(t->mirror->gpu);
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUevent start = NULL, end = NULL;
    att_status status = capture(cu, t->mirror, plan, t->calls, &graph);
    t->graph = graph;
    if (status == ATT_OK)
        status = ATT_CUDA(cu, NULL, GraphInstantiateWithFlags, &exec, graph, 0);
    t->exec = exec;
    if (status == ATT_OK)
        status = ATT_CUDA(cu, NULL, EventCreate, &start, CU_EVENT_DEFAULT);
    t->start = start;
    if (status == ATT_OK)
        status = ATT_CUDA(cu, NULL, EventCreate, &end, CU_EVENT_DEFAULT);
    t->end = end;
    return status == ATT_OK ? ATT_CUDA(cu, NULL, GraphUpload, exec, t->mirror->stream) : status;
}

bool lab_device_timer_open(lab_device_timer *t, lab_mirror *mirror, const att_plan *plan,
                           size_t calls, lab_message *why) {
    *t = (lab_device_timer){.mirror = mirror, .calls = calls};
    att_status status = att_cuda_device_enter(mirror->gpu);
    if (status == ATT_OK) {
        status = prepare(t, plan);
        att_cuda_device_leave(mirror->gpu);
    }
    if (status == ATT_OK)
        return true;
    lab_fail(why, "%s", att_last_error()->text);
    lab_device_timer_close(t);
    return false;
}

static att_status replay(lab_device_timer *t, float *milliseconds) {
    const att_cuda_driver *cu = att_cuda_device_driver(t->mirror->gpu);
    CUstream stream = t->mirror->stream;
    att_status status = ATT_CUDA(cu, NULL, EventRecord, t->start, stream);
    if (status == ATT_OK)
        status = ATT_CUDA(cu, NULL, GraphLaunch, t->exec, stream);
    if (status == ATT_OK)
        status = ATT_CUDA(cu, NULL, EventRecord, t->end, stream);
    if (status == ATT_OK)
        status = ATT_CUDA(cu, NULL, EventSynchronize, t->end);
    return status == ATT_OK
               ? ATT_CUDA(cu, NULL, EventElapsedTime, milliseconds, t->start, t->end)
               : status;
}

bool lab_device_timer_sample(lab_device_timer *t, double *ns, lab_message *why) {
    float milliseconds = 0.0f;
    att_status status = att_cuda_device_enter(t->mirror->gpu);
    if (status == ATT_OK) {
        status = replay(t, &milliseconds);
        att_cuda_device_leave(t->mirror->gpu);
    }
    *ns = (double)milliseconds * 1e6 / (double)t->calls;
    return status == ATT_OK || lab_fail(why, "%s", att_last_error()->text);
}

void lab_device_timer_close(lab_device_timer *t) {
    if (t->mirror && att_cuda_device_enter(t->mirror->gpu) == ATT_OK) {
        const att_cuda_driver *cu = att_cuda_device_driver(t->mirror->gpu);
        if (t->exec)
            cu->GraphExecDestroy(t->exec);
        if (t->graph)
            cu->GraphDestroy(t->graph);
        if (t->start)
            cu->EventDestroy(t->start);
        if (t->end)
            cu->EventDestroy(t->end);
        att_cuda_device_leave(t->mirror->gpu);
    }
    *t = (lab_device_timer){.mirror = NULL};
}
