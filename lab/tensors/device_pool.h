/* device_pool.h: GPU memory that is reused from problem to problem: allocation by the driver is
 * slow. */
#ifndef LAB_DEVICE_POOL_H
#define LAB_DEVICE_POOL_H

#include <stddef.h>

#include "cuda/device.h"

/* At least *bytes of memory, NULL if there is none; *bytes becomes its real size. `exact` asks
 * the driver for an allocation of exactly that size. The device must be current on this thread.
 * Thread: safe. */
void *lab_device_allocate(att_cuda_device *gpu, size_t *bytes, int exact);
void lab_device_release(att_cuda_device *gpu, void *block, size_t bytes, int exact);

#endif
