/* device_contexts.h: one context per device, made at first use and kept. Any thread may call,
 * with or without the GIL. */
#ifndef ATTEST_PYTHON_DEVICE_CONTEXTS_H
#define ATTEST_PYTHON_DEVICE_CONTEXTS_H

#include "attest.h"

#include <stdbool.h>

enum { DEVICE_CONTEXTS_GPUS = 64 }; /* the most GPUs */

typedef struct kept_context {
    att_context *context;
    int users;     /* current users */
    bool replaced; /* new calls get another one; destroyed with its last user */
} kept_context;

/* The context of a device; `index` is a GPU's number below DEVICE_CONTEXTS_GPUS. Call
 * device_context_give() afterwards. */
att_status device_context_take(kept_context **out, att_device device, int32_t index);
void device_context_give(kept_context *kept);

/* Whether calls on its device still get this context. */
bool device_context_is_current(const kept_context *kept);

/* Set the number of threads of CPU contexts from now on; 0: the library's choice. */
void device_context_threads(int32_t count);

#endif
