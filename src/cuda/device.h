/* device.h: a GPU as the library sees it: found through the driver, opened once per process. */
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
    int shared_per_block; /* bytes per block, by opting in */
    int shared_reserved;  /* bytes of every block that the system reserves */
    int l2_bytes;
    int64_t memory_bytes;
    int clock_khz, memory_clock_khz, memory_bus_bits;
    int driver; /* the CUDA version that the driver supports: 13000 is 13.0 */
} att_cuda_limits;

typedef struct att_cuda_device att_cuda_device;

/* The number of GPUs. 0 if there is no driver; `why` (at least 160 bytes, may be NULL) then
 * explains it. */
int att_cuda_device_count(char *why, size_t n);

/* Open GPU `index`. It stays open for the life of the process; opening it again returns the
 * same one. Thread: safe. Errors: ATT_E_DEVICE (no driver, no such GPU, too old),
 * ATT_E_CUDA. */
att_status att_cuda_device_open(att_cuda_device **out, int index);

const att_cuda_limits *att_cuda_device_limits(const att_cuda_device *device);
int att_cuda_device_index(const att_cuda_device *device);

/* The driver through which it was opened (driver.h), and the driver's handle for it. */
const struct att_cuda_driver *att_cuda_device_driver(const att_cuda_device *device);
int att_cuda_device_handle(const att_cuda_device *device);

/* Make a context of `device` current on this thread: the thread's own if it belongs to this
 * device, otherwise the primary one. After success, att_cuda_device_leave() restores the
 * previous one. Thread: safe. Errors: ATT_E_CUDA, ATT_E_MEMORY. */
att_status att_cuda_device_enter(att_cuda_device *device);
void att_cuda_device_leave(att_cuda_device *device);

/* The same, but does nothing if a context of the device is already current: *entered is then
 * false and att_cuda_device_leave() must not be called. For calls in which every nanosecond
 * counts. */
att_status att_cuda_device_enter_once(att_cuda_device *device, bool *entered);

#endif
