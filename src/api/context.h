/* context.h: a device opened by the caller, shared with the plans made from it. */
#ifndef ATT_API_CONTEXT_H
#define ATT_API_CONTEXT_H

#include <stdatomic.h>

#include "cpu/pool.h"
#include "select/select.h"

struct att_context {
    atomic_long references; /* the caller's and one a plan */
    att_limits limits;
    int threads;
    att_pool *pool;
};

void att_context_retain(att_context *ctx);

#endif
