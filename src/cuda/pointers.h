/* pointers.h: whether a GPU may access an address. */
#ifndef ATT_CUDA_POINTERS_H
#define ATT_CUDA_POINTERS_H

#include "cuda/device.h"

/* `at` must be memory of `device`, managed memory, or host memory registered with the driver;
 * `name` is its name in the message. Costs one driver call, waits for nothing, allowed during
 * capture. Thread: safe. Errors: ATT_E_ARG, ATT_E_CUDA. */
att_status att_cuda_pointer_check(att_cuda_device *device, const void *at, const char *name);

#endif
