/* saboteur_hands.c: copies and fills with the C library or the driver. */
#include "lab/subject/saboteur_hands.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/device.h"
#include "cuda/driver.h"

static const att_cuda_driver *driver(const lab_hands *h) {
    return att_cuda_device_driver(h->gpu);
}

static CUdeviceptr address(const void *at) {
    return (CUdeviceptr)(uintptr_t)at;
}

bool lab_hands_open(lab_hands *h, att_context *ctx) {
    att_context_info info = {.size = sizeof info};
    *h = (lab_hands){.gpu = NULL};
    return att_context_query(ctx, &info) == ATT_OK &&
           (info.device != ATT_DEVICE_CUDA ||
            att_cuda_device_open(&h->gpu, info.device_index) == ATT_OK);
}

/* Whether the device is current; *entered tells whether this call made it so. */
static bool enter(lab_hands *h, bool *entered) {
    return att_cuda_device_enter_once(h->gpu, entered) == ATT_OK;
}

static bool leave(lab_hands *h, bool entered, CUresult code) {
    if (entered)
        att_cuda_device_leave(h->gpu);
    return code == CUDA_SUCCESS;
}

void *lab_hands_take(lab_hands *h, size_t bytes) {
    bool entered;
    CUdeviceptr memory = 0;
    if (h->blocks == LAB_HANDS_BLOCKS)
        return NULL;
    void *block = NULL;
    if (!h->gpu)
        block = malloc(bytes + 1);
    else if (enter(h, &entered) &&
             leave(h, entered, driver(h)->MemAlloc(&memory, bytes ? bytes : 1)))
        block = (void *)(uintptr_t)memory;
    if (block)
        h->block[h->blocks++] = block;
    return block;
}

void lab_hands_close(lab_hands *h) {
    bool entered = false;
    if (h->gpu && !enter(h, &entered))
        return;
    for (size_t i = 0; i < h->blocks; i++) {
        if (h->gpu)
            driver(h)->MemFree(address(h->block[i]));
        else
            free(h->block[i]);
    }
    if (h->gpu)
        leave(h, entered, CUDA_SUCCESS);
    *h = (lab_hands){.gpu = NULL};
}

bool lab_hands_copy(lab_hands *h, void *to, const void *from, size_t bytes, void *stream) {
    bool entered;
    if (h->gpu)
        return enter(h, &entered) &&
               leave(h, entered,
                     driver(h)->MemcpyDtoDAsync(address(to), address(from), bytes, stream));
    memmove(to, from, bytes);
    return true;
}

/* Not instrumented: otherwise the address sanitizer, which watches the guards, would stop the
 * write before the guards could report it. */
__attribute__((no_sanitize("address"))) static void write_unseen(void *to, unsigned char value,
                                                                 size_t bytes) {
    volatile unsigned char *at = to;
    for (size_t i = 0; i < bytes; i++)
        at[i] = value;
}

bool lab_hands_fill(lab_hands *h, void *to, unsigned char value, size_t bytes, void *stream) {
    bool entered;
    if (h->gpu)
        return enter(h, &entered) &&
               leave(h, entered, driver(h)->MemsetD8Async(address(to), value, bytes, stream));
    write_unseen(to, value, bytes);
    return true;
}

bool lab_hands_blunt(lab_hands *h, void *to, size_t elements, void *stream) {
    bool entered;
    if (h->gpu)
        return enter(h, &entered) &&
               leave(h, entered,
                     driver(h)->MemsetD2D8Async(address(to), 2, 0, 1, elements, stream));
    for (size_t i = 0; i < elements; i++)
        ((unsigned char *)to)[2 * i] = 0;
    return true;
}

bool lab_hands_stream(lab_hands *h, void **stream) {
    bool entered;
    CUstream made = NULL;
    const bool ok =
        !h->gpu || (enter(h, &entered) &&
                    leave(h, entered, driver(h)->StreamCreate(&made, CU_STREAM_NON_BLOCKING)));
    *stream = made;
    return ok;
}

void lab_hands_drop_stream(lab_hands *h, void *stream) {
    bool entered;
    if (stream && enter(h, &entered)) {
        driver(h)->StreamSynchronize(stream);
        leave(h, entered, driver(h)->StreamDestroy(stream));
    }
}
