/* device_kind.h: one table per kind of device: what differs between them when a plan is created
 * and run. */
#ifndef ATT_CORE_DEVICE_KIND_H
#define ATT_CORE_DEVICE_KIND_H

#include "core/family.h"

typedef struct att_device_kind {
    const char *name;
    int id_width;    /* of kernel ids, in text columns */
    bool reads_data; /* the host can read and check what the arguments point at */

    /* Could the context run this row at all? */
    bool (*row_runs)(const att_kernel_row *row, const att_limits *limits, att_refusal *refusal);

    /* The alignment that a run requires of a buffer. */
    size_t (*alignment)(const att_buffer *buffer);

    /* What a run checks besides the buffers themselves: that the device can access them, and
     * the stream. */
    att_status (*check_run)(const struct att_context *ctx, const att_buffer *list, int count,
                            void *stream);
} att_device_kind;

/* ATT_DEVICE_CPU or ATT_DEVICE_CUDA. */
const att_device_kind *att_device_kind_of(att_device device);

/* The architecture whose rows a GPU uses, ATT_SM80 ...: its own or, for a GPU newer than all of
 * them, the one whose shared memory limit it satisfies. */
uint32_t att_cuda_target_of(const att_cuda_limits *gpu);

#endif
