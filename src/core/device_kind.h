/* device_kind.h: one row per kind of device: what differs between them when a plan is made and run. */
#ifndef ATT_CORE_DEVICE_KIND_H
#define ATT_CORE_DEVICE_KIND_H

#include "core/family.h"

typedef struct att_device_kind {
    const char *name;
    int id_width;    /* of kernel ids, in columns of text */
    bool reads_data; /* the host reads what the arguments point at, and can check it */

    /* Could the context run this row at all? */
    bool (*row_runs)(const att_kernel_row *row, const att_limits *limits, att_refusal *refusal);

    /* The alignment that a run asks of a buffer. */
    size_t (*alignment)(const att_buffer *buffer);

    /* What a run checks beside the buffers themselves: that the device can reach them, the stream. */
    att_status (*check_run)(const struct att_context *ctx, const att_buffer *list, int count,
                            void *stream);
} att_device_kind;

/* ATT_DEVICE_CPU or ATT_DEVICE_CUDA. */
const att_device_kind *att_device_kind_of(att_device device);

/* The architecture whose rows a GPU takes, ATT_SM80 ...: its own, or for one newer than all of them the one
 * whose limit of shared memory it keeps to. */
uint32_t att_cuda_target_of(const att_cuda_limits *gpu);

#endif
