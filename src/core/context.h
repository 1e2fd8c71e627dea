/* context.h: a device opened by the caller, shared with the plans made from it. */
#ifndef ATT_CORE_CONTEXT_H
#define ATT_CORE_CONTEXT_H

#include <stdatomic.h>
#include <stddef.h>

#include "core/user_rows.h"
#include "cpu/pool.h"
#include "cuda/module.h"

/* Sizes in 0.1, the first release: up to the first field that was added later. */
enum {
    ATT_OPTIONS_0_1 = offsetof(att_context_options, kernel),
    ATT_INFO_0_1 = offsetof(att_context_info, memory_bytes),
    ATT_KERNEL_0_1 = offsetof(att_kernel_info, role)
};

struct att_context {
    atomic_long references; /* one for the caller, one per plan */
    att_limits limits;
    int threads;            /* CPU */
    att_pool *pool;         /* NULL on a GPU */
    att_cuda_device *gpu;   /* NULL on the CPU */
    bool trust_pointers;    /* ATT_TRUST_POINTERS */
    att_cuda_source source; /* where the code of GPU kernels may come from */
    char *cache_dir;        /* what `source` points at, owned by the context */
    att_user_rows *rows;    /* what `limits` points at; NULL: none */
};

void att_context_retain(att_context *ctx);

/* The GPU that the options and the environment select, or NULL for the CPU. */
att_status att_context_choose_gpu(att_cuda_device **out, const att_context_options *o);

/* The rows from the options, the environment or the user's own file; NULL: none. */
att_status att_context_read_rows(att_user_rows **out, const att_context_options *o);

/* For a device that no user row can serve: check that what the caller or the environment names
 * exists and is valid. */
att_status att_context_check_rows(const att_context_options *o);

/* A switch in the environment: unset or empty keeps `*value`. */
att_status att_environment_switch(bool *value, const char *name);

#endif
