/* workspace.c: on the CPU one buffer is kept for the next call; on a GPU the framework's own
 * allocator, which knows its streams, provides and reclaims the memory. A small workspace is
 * part of O's memory, because an allocation costs half a microsecond. */
#include "python/core/workspace.h"

#include <stdlib.h>

_Static_assert(SPARE_ALIGN % ATT_WORKSPACE_ALIGN == 0,
               "what is behind O is aligned as a workspace");

enum { SMALL_BYTES = 1 << 14 };

static void *spare;
static size_t spare_bytes;

/* It lives as long as O, so it must be small. */
size_t workspace_beside_o(const call *c, size_t bytes) {
    const att_problem *p = &c->problem;
    const bool packed = p->features & ATT_CU_SEQLENS_Q;
    const int64_t rows = packed ? p->total_q : p->batch * p->seq_q;
    const size_t o_bytes = (size_t)(rows * p->heads_q * p->d_v) * 2; /* or twice that */
    const bool can = !c->given[ARG_OUT] && c->frame->exchange && bytes &&
                     tensor_on_gpu(c->tensors[ARG_Q].device);
    return can && bytes <= o_bytes / 8 + SMALL_BYTES ? bytes : 0;
}

static void *aligned(void *data) {
    const uintptr_t mask = ATT_WORKSPACE_ALIGN - 1;
    return (void *)(((uintptr_t)data + mask) & ~mask);
}

static int take_device(workspace *w, const workspace_place *place, size_t bytes) {
    const int64_t shape[] = {(int64_t)(bytes + ATT_WORKSPACE_ALIGN)};
    if (place->frame->exchange) {
        w->managed =
            tensor_reserve("the workspace", place->frame, place->device, (size_t)shape[0]);
        if (!w->managed)
            return -1;
        const dl_tensor *made = &w->managed->tensor;
        w->data = aligned((char *)made->data + made->byte_offset);
        return 0;
    }
    const tensor_plan wanted = {.ndim = 1, .shape = shape, .dtype = "uint8"};
    w->object = tensor_create(&w->view, "the workspace", place->frame, place->array,
                              place->device, &wanted);
    if (!w->object)
        return -1;
    w->data = aligned(w->view.data);
    return 0;
}

int workspace_take(workspace *w, const workspace_place *place, size_t bytes) {
    *w = (workspace){.data = NULL};
    if (!bytes)
        return 0;
    if (tensor_on_gpu(place->device))
        return take_device(w, place, bytes);
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

/* The larger buffer is kept. */
void workspace_give(workspace *w) {
    if (w->bytes > spare_bytes) {
        void *smaller = spare;
        spare = w->data;
        spare_bytes = w->bytes;
        free(smaller);
    } else if (w->bytes) {
        free(w->data);
    }
    if (w->managed && w->managed->deleter)
        w->managed->deleter(w->managed);
    tensor_drop(&w->view);
    Py_CLEAR(w->object);
    *w = (workspace){.data = NULL};
}
