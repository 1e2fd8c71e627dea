/* device.c: GPUs by number, their limits, and the context in which calls on them run. */
#include "cuda/device.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cuda/driver.h"

enum { DEVICES_MAX = 64, CC_MIN = 80 };

struct att_cuda_device {
    bool open; /* under `lock`, as is the rest until it is set; then constant */
    int index;
    CUdevice handle;
    att_cuda_limits limits;
    const att_cuda_driver *cu;
    pthread_mutex_t lock; /* of `primary` */
    CUcontext primary;    /* retained for the life of the process once needed */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static att_cuda_device devices[DEVICES_MAX];

int att_cuda_device_count(char *why, size_t n) {
    const char *missing;
    const att_cuda_driver *cu = att_cuda_driver_get(&missing);
    int count = 0;
    if (cu &&
        att_cuda_check(cu, cu->DeviceGetCount(&count), "cuDeviceGetCount", NULL) != ATT_OK) {
        missing = att_last_error()->text;
        count = 0;
    } else if (cu && count < 1) {
        missing = "the NVIDIA driver finds no GPU";
    }
    if (why && n > 0)
        snprintf(why, n, "%s", count > 0 ? "" : missing);
    return count < DEVICES_MAX ? count : DEVICES_MAX;
}

static void write_uuid(char out[41], const CUuuid *uuid) {
    const unsigned char *b = uuid->bytes;
    snprintf(out, 41,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}

static att_status read_limits(att_cuda_limits *limits, const att_cuda_driver *cu,
                              CUdevice handle) {
    int major = 0, minor = 0, warp = 0;
    const struct {
        int attribute;
        int *value;
    } attributes[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, &warp},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &limits->sms},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &limits->threads_per_sm},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, &limits->blocks_per_sm},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, &limits->registers_per_sm},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, &limits->registers_per_block},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &limits->shared_per_sm},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &limits->shared_per_block},
        {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, &limits->shared_reserved},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &limits->l2_bytes},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &limits->clock_khz},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &limits->memory_clock_khz},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &limits->memory_bus_bits},
    };
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        ATT_TRY(ATT_CUDA(cu, NULL, DeviceGetAttribute, attributes[i].value,
                         attributes[i].attribute, handle));
    CUuuid uuid;
    size_t bytes = 0;
    ATT_TRY(ATT_CUDA(cu, NULL, DeviceGetName, limits->name, (int)sizeof limits->name, handle));
    ATT_TRY(ATT_CUDA(cu, NULL, DeviceGetUuid, &uuid, handle));
    ATT_TRY(ATT_CUDA(cu, NULL, DeviceTotalMem, &bytes, handle));
    limits->name[sizeof limits->name - 1] = '\0';
    write_uuid(limits->uuid, &uuid);
    limits->memory_bytes = (int64_t)bytes;
    limits->cc = major * 10 + minor;
    limits->warps_per_sm = warp > 0 ? limits->threads_per_sm / warp : 0;
    limits->driver = cu->version;
    return ATT_OK;
}

/* Fill a device that is not open yet. */
static att_status open_device(att_cuda_device *device, int index) {
    const char *why;
    const att_cuda_driver *cu = att_cuda_driver_get(&why);
    ATT_REQUIRE(cu, ATT_E_DEVICE, "device", "%s", why);
    int count = 0;
    ATT_TRY(ATT_CUDA(cu, NULL, DeviceGetCount, &count));
    ATT_REQUIRE(index < count, ATT_E_DEVICE, "device_index",
                "device_index=%d: the driver finds %d GPU%s", index, count,
                count == 1 ? "" : "s");
    CUdevice handle;
    att_cuda_limits limits = {0};
    ATT_TRY(ATT_CUDA(cu, NULL, DeviceGet, &handle, index));
    ATT_TRY(read_limits(&limits, cu, handle));
    ATT_REQUIRE(limits.cc >= CC_MIN, ATT_E_DEVICE, "device_index",
                "GPU %d (%s) has compute capability %d.%d; 8.0 or newer is needed", index,
                limits.name, limits.cc / 10, limits.cc % 10);
    *device = (att_cuda_device){.index = index, .handle = handle, .limits = limits, .cu = cu};
    pthread_mutex_init(&device->lock, NULL);
    device->open = true;
    return ATT_OK;
}

att_status att_cuda_device_open(att_cuda_device **out, int index) {
    *out = NULL;
    ATT_REQUIRE(index >= 0 && index < DEVICES_MAX, ATT_E_DEVICE, "device_index",
                "device_index=%d is not within 0 to %d", index, DEVICES_MAX - 1);
    att_cuda_device *device = &devices[index];
    pthread_mutex_lock(&lock);
    const att_status status = device->open ? ATT_OK : open_device(device, index);
    pthread_mutex_unlock(&lock);
    if (status == ATT_OK)
        *out = device;
    return status;
}

const att_cuda_limits *att_cuda_device_limits(const att_cuda_device *device) {
    return &device->limits;
}

int att_cuda_device_index(const att_cuda_device *device) {
    return device->index;
}

int att_cuda_device_handle(const att_cuda_device *device) {
    return device->handle;
}

const att_cuda_driver *att_cuda_device_driver(const att_cuda_device *device) {
    return device->cu;
}

static att_status retain_primary(CUcontext *out, att_cuda_device *device) {
    pthread_mutex_lock(&device->lock);
    att_status status = ATT_OK;
    if (!device->primary)
        status = ATT_CUDA(device->cu, NULL, DevicePrimaryCtxRetain, &device->primary,
                          device->handle);
    *out = device->primary;
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* The context in which calls on the device should run, and whether it is already current. */
static att_status find_context(CUcontext *context, bool *current, att_cuda_device *device) {
    const att_cuda_driver *cu = device->cu;
    CUdevice of = -1;
    *context = NULL;
    ATT_TRY(ATT_CUDA(cu, NULL, CtxGetCurrent, context));
    if (*context)
        ATT_TRY(ATT_CUDA(cu, NULL, CtxGetDevice, &of));
    *current = *context && of == device->handle;
    return *current ? ATT_OK : retain_primary(context, device);
}

att_status att_cuda_device_enter(att_cuda_device *device) {
    CUcontext context;
    bool current;
    ATT_TRY(find_context(&context, &current, device));
    return ATT_CUDA(device->cu, NULL, CtxPushCurrent, context);
}

att_status att_cuda_device_enter_once(att_cuda_device *device, bool *entered) {
    CUcontext context;
    bool current;
    *entered = false;
    ATT_TRY(find_context(&context, &current, device));
    if (current)
        return ATT_OK;
    ATT_TRY(ATT_CUDA(device->cu, NULL, CtxPushCurrent, context));
    *entered = true;
    return ATT_OK;
}

void att_cuda_device_leave(att_cuda_device *device) {
    CUcontext popped;
    device->cu->CtxPopCurrent(&popped);
}
