/* pointers.c: whether a GPU may access an address. */
#include "cuda/pointers.h"

#include "base/error.h"
#include "cuda/driver.h"

typedef struct place {
    unsigned int type, managed;
    int ordinal;
} place;

static CUresult ask(const att_cuda_driver *cu, const void *at, place *found) {
    int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&found->type, &found->managed, &found->ordinal};
    *found = (place){.ordinal = -1}; /* unchanged for an address unknown to the driver */
    return cu->PointerGetAttributes(3, attributes, values, (CUdeviceptr)(uintptr_t)at);
}

att_status att_cuda_pointer_check(att_cuda_device *device, const void *at, const char *name) {
    const att_cuda_driver *cu = att_cuda_device_driver(device);
    place found;
    CUresult code = ask(cu, at, &found);
    if (code == CUDA_ERROR_INVALID_CONTEXT) { /* the thread has none: ask in the device's own */
        ATT_TRY(att_cuda_device_enter(device));
        code = ask(cu, at, &found);
        att_cuda_device_leave(device);
    }
    if (code == CUDA_ERROR_INVALID_VALUE) /* an older driver's answer for an unknown address */
        found = (place){.ordinal = -1};   /* it may have filled in a part */
    else
        ATT_TRY(att_cuda_check(cu, code, "cuPointerGetAttributes", NULL));
    if (found.managed)
        return ATT_OK;
    ATT_REQUIRE(found.type == CU_MEMORYTYPE_DEVICE || found.type == CU_MEMORYTYPE_HOST,
                ATT_E_ARG, name,
                "%s is host memory, which the GPU cannot read; copy it to the device", name);
    ATT_REQUIRE(
        found.type == CU_MEMORYTYPE_HOST || found.ordinal == att_cuda_device_index(device),
        ATT_E_ARG, name, "%s belongs to GPU %d, the plan is for GPU %d", name, found.ordinal,
        att_cuda_device_index(device));
    return ATT_OK;
}
