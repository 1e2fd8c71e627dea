/* fake_stream.c: streams, events and graphs of the fake driver. All streams are one, in
 * order. */
#include <stdlib.h>
#include <string.h>

#include "tests/fake_cuda/fake_driver.h"

struct CUevent_st {
    double at_us; /* by fake_clock_us */
};
struct CUgraph_st {
    fake_node *first, **last;
};
static CUgraph capturing; /* protected by `fake_lock`; one at a time */
static CUstream capturing_stream;

static CUresult move_bytes(const fake_node *node) {
    const CUresult code = fake_run_launches();
    char *to = (char *)(uintptr_t)node->to;
    if (node->type == CU_GRAPH_NODE_TYPE_MEMCPY) {
        memmove(to, (const void *)(uintptr_t)node->from, node->height);
        backend_memory_written(to, node->height);
    }
    for (size_t i = 0; node->type == CU_GRAPH_NODE_TYPE_MEMSET && i < node->height; i++) {
        memset(to + i * node->pitch, node->value, node->width);
        backend_memory_written(to + i * node->pitch, node->width);
    }
    fake_clock_us +=
        2.0 + (double)(node->width ? node->width * node->height : node->height) / 1e5;
    return code;
}

/* With `fake_lock` held. */
static CUresult execute(const fake_node *node) {
    if (node->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return move_bytes(node);
    if (node->host) {
        const CUresult code = fake_run_launches();
        node->host(node->params);
        return code;
    }
    CUlaunchConfig config = node->config;
    CUlaunchAttribute attributes[FAKE_ATTRIBUTES_MAX];
    memcpy(attributes, node->attributes, sizeof attributes);
    config.attrs = attributes;
    fake_state.busy = true;
    backend_launch(node->kernel->library->code, node->kernel->name, &config, node->cluster,
                   node->params, node->bytes);
    return CUDA_SUCCESS;
}

static void append(const fake_node *node) {
    fake_node *kept = aligned_alloc(_Alignof(fake_node), sizeof *kept);
    *kept = *node;
    *capturing->last = kept;
    capturing->last = &kept->next;
}

CUresult fake_stream_take(const fake_node *node, CUstream stream) {
    CUresult code = CUDA_SUCCESS;
    pthread_mutex_lock(&fake_lock);
    if (capturing && stream == capturing_stream)
        append(node);
    else
        code = execute(node);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static CUresult run_launches(void) {
    pthread_mutex_lock(&fake_lock);
    const CUresult code = fake_run_launches();
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Streams, events and graphs are memory blocks that only have to be freed. */
static CUresult make_handle(void *out, long *live) {
    *(void **)out = malloc(16);
    fake_add(live, 1);
    return CUDA_SUCCESS;
}

static CUresult drop_handle(void *handle, long *live) {
    free(handle);
    fake_add(live, -1);
    return CUDA_SUCCESS;
}

CUresult fake_StreamCreate(CUstream *stream, unsigned int flags) {
    ENTER("cuStreamCreate");
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE : make_handle(stream, &fake_state.streams_live);
}

CUresult fake_StreamDestroy(CUstream stream) {
    return drop_handle(stream, &fake_state.streams_live);
}

CUresult fake_StreamSynchronize(CUstream stream) {
    (void)stream;
    ENTER("cuStreamSynchronize");
    return fake_wait();
}

CUresult fake_StreamQuery(CUstream stream) {
    (void)stream;
    ENTER("cuStreamQuery");
    return run_launches();
}

CUresult fake_StreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
    (void)stream, (void)event, (void)flags;
    ENTER("cuStreamWaitEvent");
    return CUDA_SUCCESS;
}

static void free_graph(CUgraph graph) {
    for (fake_node *r = graph ? graph->first : NULL, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    free(graph);
}

CUresult fake_StreamBeginCapture(CUstream stream, int mode) {
    (void)mode;
    ENTER("cuStreamBeginCapture");
    CUgraph graph = calloc(1, sizeof *graph);
    graph->last = &graph->first;
    pthread_mutex_lock(&fake_lock);
    capturing = graph;
    capturing_stream = stream;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult fake_StreamEndCapture(CUstream stream, CUgraph *graph) {
    (void)stream;
    pthread_mutex_lock(&fake_lock);
    *graph = capturing;
    capturing = NULL;
    pthread_mutex_unlock(&fake_lock);
    const CUresult planned = fake_enter("cuStreamEndCapture");
    if (planned != CUDA_SUCCESS) {
        free_graph(*graph);
        *graph = NULL;
        return planned;
    }
    fake_add(&fake_state.graphs_live, 1);
    return CUDA_SUCCESS;
}

CUresult fake_StreamIsCapturing(CUstream stream, int *status) {
    (void)stream;
    ENTER("cuStreamIsCapturing");
    *status = 0;
    return CUDA_SUCCESS;
}

CUresult fake_EventCreate(CUevent *event, unsigned int flags) {
    (void)flags;
    ENTER("cuEventCreate");
    return make_handle(event, &fake_state.events_live);
}

CUresult fake_EventDestroy(CUevent event) {
    return drop_handle(event, &fake_state.events_live);
}

CUresult fake_EventRecord(CUevent event, CUstream stream) {
    (void)stream;
    ENTER("cuEventRecord");
    const CUresult code = run_launches();
    event->at_us = fake_clock_us;
    return code;
}

CUresult fake_EventSynchronize(CUevent event) {
    (void)event;
    ENTER("cuEventSynchronize");
    return run_launches();
}

CUresult fake_EventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    ENTER("cuEventElapsedTime");
    *milliseconds = backend_keeps_time() ? (float)((end->at_us - start->at_us) / 1e3) : 1.0f;
    return CUDA_SUCCESS;
}

/* The executable graph is the graph, which outlives it. */
CUresult fake_GraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                        unsigned long long flags) {
    (void)flags;
    ENTER("cuGraphInstantiateWithFlags");
    *exec = (CUgraphExec)graph;
    fake_add(&fake_state.graphs_live, 1);
    return CUDA_SUCCESS;
}

CUresult fake_GraphUpload(CUgraphExec exec, CUstream stream) {
    (void)exec, (void)stream;
    ENTER("cuGraphUpload");
    return CUDA_SUCCESS;
}

CUresult fake_GraphLaunch(CUgraphExec exec, CUstream stream) {
    (void)stream;
    ENTER("cuGraphLaunch");
    CUresult code = CUDA_SUCCESS;
    pthread_mutex_lock(&fake_lock);
    for (const fake_node *node = ((CUgraph)exec)->first; node; node = node->next)
        code = execute(node);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

CUresult fake_GraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    ENTER("cuGraphGetNodes");
    size_t n = 0;
    for (fake_node *r = graph->first; r; r = r->next, n++)
        if (nodes)
            nodes[n] = (CUgraphNode)r;
    *count = n;
    return CUDA_SUCCESS;
}

CUresult fake_GraphNodeGetType(CUgraphNode node, int *type) {
    ENTER("cuGraphNodeGetType");
    *type = ((const fake_node *)node)->type;
    return CUDA_SUCCESS;
}

CUresult fake_GraphExecDestroy(CUgraphExec exec) {
    fake_add(&fake_state.graphs_live, exec ? -1 : 0);
    return CUDA_SUCCESS;
}

CUresult fake_GraphDestroy(CUgraph graph) {
    free_graph(graph);
    fake_add(&fake_state.graphs_live, graph ? -1 : 0);
    return CUDA_SUCCESS;
}
