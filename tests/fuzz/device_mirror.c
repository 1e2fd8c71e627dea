/* device_mirror.c: allocations of the driver, at the same address modulo 256 as the host's
 * arrays. */
#include "tests/fuzz/device_mirror.h"

#include "tests/fuzz/random_input.h"

void mirror_add(device_mirror *mirror, const array_slot *slot) {
    const size_t shift = (uintptr_t)slot->data % 256;
    const int i = mirror->count;
    if (i == MIRROR_MOST ||
        mirror->cu->MemAlloc(&mirror->blocks[i], shift + slot->bytes + 1) != CUDA_SUCCESS)
        finding("the driver has no memory for a case");
    mirror->count++;
    mirror->slots[i] = slot;
    mirror->data[i] = mirror->blocks[i] + shift;
    if (mirror->cu->MemcpyHtoD(mirror->data[i], slot->data, slot->bytes) != CUDA_SUCCESS)
        finding("the driver copies nothing");
}

void *mirror_of(const device_mirror *mirror, const void *host) {
    for (int i = 0; i < mirror->count; i++) {
        const array_slot *slot = mirror->slots[i];
        const uintptr_t shift = (uintptr_t)host - (uintptr_t)slot->data;
        if (shift <= slot->bytes)
            return (void *)(uintptr_t)(mirror->data[i] + shift);
    }
    return (void *)(uintptr_t)host;
}

bool mirror_fetch(const device_mirror *mirror) {
    if (mirror->cu->CtxSynchronize() != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < mirror->count; i++)
        if (mirror->cu->MemcpyDtoH(mirror->slots[i]->data, mirror->data[i],
                                   mirror->slots[i]->bytes) != CUDA_SUCCESS)
            return false;
    return true;
}

void mirror_free(device_mirror *mirror) {
    for (int i = 0; i < mirror->count; i++)
        mirror->cu->MemFree(mirror->blocks[i]);
    mirror->count = 0;
}
