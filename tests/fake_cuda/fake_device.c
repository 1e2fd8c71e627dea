/* fake_device.c: devices and contexts of the fake driver. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/fake_cuda/fake_driver.h"

struct CUctx_st {
    CUdevice device;
};

static struct CUctx_st primaries[FAKE_DEVICES];
enum { STACK_MAX = 16 };
static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local int depth;

bool fake_is_device(CUdevice device) {
    return device >= 0 && device < fake_state.devices;
}

bool fake_has_context(void) {
    return depth > 0;
}

CUresult fake_DeviceGetCount(int *count) {
    ENTER("cuDeviceGetCount");
    *count = fake_state.devices;
    return CUDA_SUCCESS;
}

CUresult fake_DeviceGet(CUdevice *device, int ordinal) {
    ENTER("cuDeviceGet");
    *device = ordinal;
    return fake_is_device(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_DeviceGetName(char *name, int bytes, CUdevice device) {
    ENTER("cuDeviceGetName");
    snprintf(name, (size_t)bytes, "%s %d", backend_name(), device);
    return CUDA_SUCCESS;
}

CUresult fake_DeviceGetUuid(CUuuid *uuid, CUdevice device) {
    ENTER("cuDeviceGetUuid");
    for (int i = 0; i < 16; i++)
        uuid->bytes[i] = (unsigned char)(16 * device + i);
    return CUDA_SUCCESS;
}

/* The environment variable FAKE_CUDA_CC sets that of device 0, unless a test has set
 * another. */
static int cc_of(CUdevice device) {
    const char *text = getenv("FAKE_CUDA_CC");
    return device == 0 && fake_state.cc[0] == 90 && text ? atoi(text) : fake_state.cc[device];
}

CUresult fake_DeviceGetAttribute(int *value, int attribute, CUdevice device) {
    ENTER("cuDeviceGetAttribute");
    if (!fake_is_device(device))
        return CUDA_ERROR_INVALID_VALUE;
    const int cc = cc_of(device);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = cc / 10;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = cc % 10;
        break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        *value = 32;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = backend_multiprocessors();
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        *value = cc == 89 ? 1536 : 2048;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        *value = 32;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        *value = cc == 89 ? 102400 : cc == 80 ? 167936 : 233472;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = cc == 89 ? 101376 : cc == 80 ? 166912 : 232448;
        break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        *value = 1024;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        *value = 65536;
        break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *value = 50 << 20;
        break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        *value = 1980000;
        break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        *value = 3201000;
        break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        *value = 6144;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult fake_DeviceTotalMem(size_t *bytes, CUdevice device) {
    ENTER("cuDeviceTotalMem");
    *bytes = (size_t)(device + 1) << 32;
    return CUDA_SUCCESS;
}

CUresult fake_DevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    ENTER("cuDevicePrimaryCtxRetain");
    primaries[device].device = device;
    *context = &primaries[device];
    fake_add(&fake_state.contexts_retained, 1);
    return CUDA_SUCCESS;
}

CUresult fake_CtxGetCurrent(CUcontext *context) {
    ENTER("cuCtxGetCurrent");
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult fake_CtxGetDevice(CUdevice *device) {
    ENTER("cuCtxGetDevice");
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = stack[depth - 1]->device;
    return CUDA_SUCCESS;
}

CUresult fake_CtxPushCurrent(CUcontext context) {
    ENTER("cuCtxPushCurrent");
    if (!context || depth == STACK_MAX)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

/* Not counted: callers can only ignore its failure. */
CUresult fake_CtxPopCurrent(CUcontext *context) {
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

CUresult fake_CtxSynchronize(void) {
    ENTER("cuCtxSynchronize");
    const CUresult code = fake_wait();
    if (fake_state.busy_us > 0 && fake_state.busy)
        usleep((useconds_t)fake_state.busy_us);
    fake_state.busy = false;
    return depth > 0 ? code : CUDA_ERROR_INVALID_CONTEXT;
}
