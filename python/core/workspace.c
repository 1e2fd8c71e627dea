/* workspace.c: on the CPU one buffer is kept for the next call; on a GPU the framework's own allocator, which knows
 * its streams, gives and takes back. */
#include "python/core/workspace.h"

#include <stdlib.h>

static void *spare;
static size_t spare_bytes;

static int take_device(workspace *w, const call *c, size_t bytes) {
    const int64_t shape[] = {(int64_t)(bytes + ATT_WORKSPACE_ALIGN)};
    const tensor_plan wanted = {.ndim = 1, .shape = shape, .dtype = "uint8"};
    w->object = tensor_create(&w->view, "the workspace", c->frame, c->given[ARG_Q],
                              c->tensors[ARG_Q].device, &wanted);
    if (!w->object)
        return -1;
    const uintptr_t mask = ATT_WORKSPACE_ALIGN - 1;
    w->data = (void *)(((uintptr_t)w->view.data + mask) & ~mask);
    return 0;
}

int workspace_take(workspace *w, const call *c, size_t bytes) {
    *w = (workspace){.data = NULL};
    if (!bytes)
        return 0;
    if (tensor_on_gpu(c->tensors[ARG_Q].device))
        return take_device(w, c, bytes);
    if (spare_bytes >= bytes) {
        w->data = spare;
        w->bytes = spare_bytes;
        spare = NULL;
        spare_bytes = 0;
        return 0;
    }
    w->bytes = (bytes + ATT_WORKSPACE_ALIGN - 1) / ATT_WORKSPACE_ALIGN * ATT_WORKSPACE_ALIGN;
    w->data = aligned_alloc(ATT_WORKSPACE_ALIGN, w->bytes);
    if (w->data)
        return 0;
    PyErr_NoMemory();
    return -1;
}

/* The larger one is kept. */
void workspace_give(workspace *w) {
    if (w->bytes > spare_bytes) {
        void *smaller = spare;
        spare = w->data;
        spare_bytes = w->bytes;
        free(smaller);
    } else if (w->bytes) {
        free(w->data);
    }
    tensor_drop(&w->view);
    Py_CLEAR(w->object);
    *w = (workspace){.data = NULL};
}
