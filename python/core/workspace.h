/* workspace.h: the scratch memory of one run. Call with the GIL held. */
#ifndef ATTEST_PYTHON_WORKSPACE_H
#define ATTEST_PYTHON_WORKSPACE_H

#include "python/core/problem_build.h"

typedef struct workspace {
    void *data;
    size_t bytes; /* 0 on a GPU, where one of these owns the memory, or O does: */
    dl_managed *managed;
    PyObject *object;
    tensor view;
} workspace;

/* How many of `bytes` to place after O in its memory: all or none. */
size_t workspace_beside_o(const call *c, size_t bytes);

/* Where a call computes, and the framework array whose allocator it uses. */
typedef struct workspace_place {
    framework *frame;
    PyObject *array;
    dl_device device;
} workspace_place;

/* `bytes` of memory there. Returns 0, or -1 with an error. */
int workspace_take(workspace *w, const workspace_place *place, size_t bytes);
void workspace_give(workspace *w);

#endif
