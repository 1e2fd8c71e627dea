/* workspace.h: the scratch memory of one run. Call with the GIL held. */
#ifndef ATTEST_PYTHON_WORKSPACE_H
#define ATTEST_PYTHON_WORKSPACE_H

#include "python/core/problem_build.h"

typedef struct workspace {
    void *data;
    size_t bytes; /* 0 on a GPU, where one of these has the memory, or O: */
    dl_managed *managed;
    PyObject *object;
    tensor view;
} workspace;

/* How many of `bytes` the memory of O should have behind it: all or none. */
size_t workspace_beside_o(const call *c, size_t bytes);

/* Where a call computes, and whose memory it takes: an array of the framework. */
typedef struct workspace_place {
    framework *frame;
    PyObject *array;
    dl_device device;
} workspace_place;

/* `bytes` of memory there. 0, or -1 with an error. */
int workspace_take(workspace *w, const workspace_place *place, size_t bytes);
void workspace_give(workspace *w);

#endif
