/* device_mirror.h: the arrays of a case in a driver's memory.
 *
 * Each has an allocation that ends where the array does, so that a driver that checks addresses
 * sees the first byte past it. */
#ifndef FUZZ_DEVICE_MIRROR_H
#define FUZZ_DEVICE_MIRROR_H

#include "cuda/driver.h"
#include "tests/fuzz/array_slot.h"

enum { MIRROR_MOST = 32 };

typedef struct device_mirror {
    const att_cuda_driver *cu;
    const array_slot *slots[MIRROR_MOST];
    CUdeviceptr blocks[MIRROR_MOST], data[MIRROR_MOST];
    int count;
} device_mirror;

/* Copy an array there. Aborts if the driver has no memory. */
void mirror_add(device_mirror *mirror, const array_slot *slot);

/* The device address for a host address in one of the arrays; other addresses are unchanged. */
void *mirror_of(const device_mirror *mirror, const void *host);

/* Wait for the device and copy everything back. False if the device has failed. */
bool mirror_fetch(const device_mirror *mirror);

void mirror_free(device_mirror *mirror);

#endif
