/* device.h: a GPU as the library sees it: found through the driver, opened once a process. */
#ifndef ATT_CUDA_DEVICE_H
#define ATT_CUDA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attest.h"

typedef struct att_cuda_limits {
    char name[64];
    char uuid[41]; /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
    int cc;        /* compute capability: 90 is 9.0 */
    int sms;
    int threads_per_sm, warps_per_sm, blocks_per_sm;
    int registers_per_sm, registers_per_block;
    int shared_per_sm;    /* bytes */
    int shared_per_block; /* bytes a block may opt in to */
    int shared_reserved;  /* bytes of every block that the system keeps */
    int l2_bytes;
    int64_t memory_bytes;
    int clock_khz, memory_clock_khz, memory_bus_bits;
    int driver; /* the CUDA version the driver speaks: 13000 is 13.0 */
} att_cuda_limits;

typedef struct att_cuda_device att_cuda_device;

/* GPUs there are; 0 where there is no driver, and `why` (at least 160 bytes, may be NULL) then says so. */
int att_cuda_device_count(char *why, size_t n);

/* The GPU `index`. It stays open for the life of the process; opening it again gives the same one.
 * Thread: safe. Errors: ATT_E_DEVICE (no driver, no such GPU, too old), ATT_E_CUDA. */
att_status att_cuda_device_open(att_cuda_device **out, int index);

const att_cuda_limits *att_cuda_device_limits(const att_cuda_device *device);
int att_cuda_device_index(const att_cuda_device *device);

/* The driver it was opened through (driver.h), and the driver's own number for it. */
const struct att_cuda_driver *att_cuda_device_driver(const att_cuda_device *device);
int att_cuda_device_handle(const att_cuda_device *device);

/* Make a context of `device` current on this thread: the thread's own where that is one of this device,
 * otherwise the primary one. After success, att_cuda_device_leave() brings back what was current before.
 * Thread: safe. Errors: ATT_E_CUDA, ATT_E_MEMORY. */
att_status att_cuda_device_enter(att_cuda_device *device);
void att_cuda_device_leave(att_cuda_device *device);

/* The same, but nothing is done where a context of the device is current already: *entered is then false and
 * nothing is to be left. For calls of which every nanosecond counts. */
att_status att_cuda_device_enter_once(att_cuda_device *device, bool *entered);

#endif
