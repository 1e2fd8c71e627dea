/* device_timer.c: runs captured into a graph and timed by events. */
#include "lab/device_timer.h"

#include "cuda/device.h"
#include "cuda/driver.h"

/* Everything between these two is on the stream being captured. */
static bool capture(const att_cuda_driver *cu, lab_mirror *m, const lab_prepared *prepared,
                    size_t calls, CUgraph *graph, lab_message *why) {
    att_status status =
        ATT_CUDA(cu, NULL, StreamBeginCapture, m->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (status != ATT_OK)
        return lab_fail(why, "%s", att_last_error()->text);
    for (size_t i = 0; status == ATT_OK && i < calls; i++)
        status = lab_prepared_run(prepared, &m->args, m->workspace, m->stream, why);
    const CUresult ended = cu->StreamEndCapture(m->stream, graph);
    return status == ATT_OK &&
           (att_cuda_check(cu, ended, "cuStreamEndCapture", NULL) == ATT_OK ||
            lab_fail(why, "%s", att_last_error()->text));
}

static bool prepare(lab_device_timer *t, const lab_prepared *prepared, lab_message *why) {
    const att_cuda_driver *cu = att_cuda_device_driver(t->mirror->gpu);
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUevent start = NULL, end = NULL;
    const bool captured = capture(cu, t->mirror, prepared, t->calls, &graph, why);
    t->graph = graph;
    if (!captured)
        return false;
    att_status status = ATT_CUDA(cu, NULL, GraphInstantiateWithFlags, &exec, graph, 0);
    t->exec = exec;
    if (status == ATT_OK)
        status = ATT_CUDA(cu, NULL, EventCreate, &start, CU_EVENT_DEFAULT);
    t->start = start;
    if (status == ATT_OK)
        status = ATT_CUDA(cu, NULL, EventCreate, &end, CU_EVENT_DEFAULT);
    t->end = end;
    if (status == ATT_OK)
        status = ATT_CUDA(cu, NULL, GraphUpload, exec, t->mirror->stream);
    return status == ATT_OK || lab_fail(why, "%s", att_last_error()->text);
}

bool lab_device_timer_open(lab_device_timer *t, lab_mirror *mirror,
                           const lab_prepared *prepared, size_t calls, lab_message *why) {
    *t = (lab_device_timer){.mirror = mirror, .calls = calls};
    if (att_cuda_device_enter(mirror->gpu) != ATT_OK) {
        *t = (lab_device_timer){.mirror = NULL};
        return lab_fail(why, "%s", att_last_error()->text);
    }
    const bool ok = prepare(t, prepared, why);
    att_cuda_device_leave(mirror->gpu);
    if (!ok)
        lab_device_timer_close(t);
    return ok;
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
