/* device_memory.c: tensors mirrored on a GPU. */
#include "lab/tensors/device_memory.h"

#include <stdlib.h>
#include <string.h>

#include "attention/problem.h"
#include "cuda/device.h"
#include "cuda/driver.h"
#include "lab/tensors/device_pool.h"
#include "lab/tensors/page_walk.h"

/* A copy has the same address modulo this as the original, and so the same alignment. */
enum { ALIGNMENT = 256 };

static bool wants_exact(void) {
    const char *text = getenv("ATTEST_LAB_EXACT");
    return text && strcmp(text, "1") == 0;
}

static CUdeviceptr address(const void *device) {
    return (CUdeviceptr)(uintptr_t)device;
}

/* Whether the library's call succeeded; if not, `why` gets its message. */
static bool held(att_status status, lab_message *why) {
    return status == ATT_OK || lab_fail(why, "%s", att_last_error()->text);
}

/* -------------------------------------------------------------------- copying */

typedef struct copying {
    const lab_mirror *mirror;
    const lab_region *region;
    bool to_device;
} copying;

static bool copy_piece(void *context, unsigned char *at, size_t bytes) {
    const copying *c = context;
    const att_cuda_driver *cu = att_cuda_device_driver(c->mirror->gpu);
    const CUdeviceptr device = address(c->region->device + (at - c->region->host));
    CUstream stream = c->mirror->stream;
    if (bytes == 0)
        return true;
    return (c->to_device
                ? ATT_CUDA(cu, NULL, MemcpyHtoDAsync, device, at, bytes, stream)
                : ATT_CUDA(cu, NULL, MemcpyDtoHAsync, at, device, bytes, stream)) == ATT_OK;
}

static bool copy_region(const lab_mirror *m, const lab_region *r, bool to_device) {
    copying c = {m, r, to_device};
    return r->sparse ? lab_walk_pages(r->host, r->bytes, copy_piece, &c)
                     : copy_piece(&c, r->host, r->bytes);
}

/* Copy the outputs, or the inputs, and wait. */
static bool copy_all(lab_mirror *m, bool outputs, bool to_device, lab_message *why) {
    if (!m->gpu)
        return true;
    if (!held(att_cuda_device_enter(m->gpu), why))
        return false;
    bool ok = true;
    for (int i = 0; ok && i < LAB_REGIONS; i++)
        if (m->region[i].host && m->region[i].output == outputs)
            ok = copy_region(m, &m->region[i], to_device);
    const att_cuda_driver *cu = att_cuda_device_driver(m->gpu);
    ok = ok && ATT_CUDA(cu, NULL, StreamSynchronize, m->stream) == ATT_OK;
    att_cuda_device_leave(m->gpu);
    return ok || lab_fail(why, "%s", att_last_error()->text);
}

bool lab_mirror_upload_outputs(lab_mirror *m, lab_message *why) {
    return copy_all(m, true, true, why);
}

bool lab_mirror_poison_outputs(lab_mirror *m, void *stream, lab_message *why) {
    if (!m->gpu)
        return true;
    for (int i = 0; i < LAB_REGIONS; i++)
        if (m->region[i].output && m->region[i].sparse)
            return lab_mirror_upload_outputs(m, why);
    if (!held(att_cuda_device_enter(m->gpu), why))
        return false;
    const att_cuda_driver *cu = att_cuda_device_driver(m->gpu);
    bool ok = true;
    for (int i = 0; ok && i < LAB_REGIONS; i++) {
        const lab_region *r = &m->region[i];
        if (r->host && r->output && r->data_bytes > 0)
            ok = ATT_CUDA(cu, NULL, MemsetD8Async, address(r->device + r->data_at), r->poison,
                          r->data_bytes, stream) == ATT_OK;
    }
    att_cuda_device_leave(m->gpu);
    return ok || lab_fail(why, "%s", att_last_error()->text);
}

bool lab_mirror_upload_inputs(lab_mirror *m, lab_message *why) {
    return copy_all(m, false, true, why);
}

bool lab_mirror_download_outputs(lab_mirror *m, lab_message *why) {
    return copy_all(m, true, false, why);
}

bool lab_mirror_download_inputs(lab_mirror *m, lab_message *why) {
    return copy_all(m, false, false, why);
}

bool lab_mirror_wait(lab_mirror *m, lab_message *why) {
    if (!m->gpu)
        return true;
    if (!held(att_cuda_device_enter(m->gpu), why))
        return false;
    const att_cuda_driver *cu = att_cuda_device_driver(m->gpu);
    const att_status status = ATT_CUDA(cu, NULL, StreamSynchronize, m->stream);
    att_cuda_device_leave(m->gpu);
    return held(status, why);
}

/* ------------------------------------------------------------------------ life */

static bool allocate(lab_mirror *m, lab_region *r, lab_message *why) {
    const att_cuda_driver *cu = att_cuda_device_driver(m->gpu);
    const size_t shift = (uintptr_t)r->host % ALIGNMENT;
    r->block_bytes = r->bytes + shift > 0 ? r->bytes + shift : 1;
    r->block = lab_device_allocate(m->gpu, &r->block_bytes, wants_exact());
    if (!r->block)
        return lab_fail(why, "no memory on the GPU for a tensor of %zu bytes", r->bytes);
    r->device = (unsigned char *)r->block + shift;
    return !r->sparse || held(ATT_CUDA(cu, NULL, MemsetD8Async, address(r->block), 0,
                                       r->block_bytes, m->stream),
                              why);
}

/* The copy of a host address; NULL of NULL. */
static void *translate(const void *mirror, const void *host) {
    const lab_mirror *m = mirror;
    const unsigned char *at = host;
    for (int i = 0; at && i < LAB_REGIONS; i++) {
        const lab_region *r = &m->region[i];
        if (r->host && at >= r->host && (at < r->host + r->bytes || at == r->host))
            return r->device + (at - r->host);
    }
    return NULL;
}

static bool open_stream(lab_mirror *m, lab_message *why) {
    const att_cuda_driver *cu = att_cuda_device_driver(m->gpu);
    CUstream stream = NULL;
    const bool ok =
        held(ATT_CUDA(cu, NULL, StreamCreate, &stream, CU_STREAM_NON_BLOCKING), why);
    m->stream = stream;
    return ok;
}

/* Allocate a stream and memory for every region, unless they are borrowed. */
static bool reserve(lab_mirror *m, lab_message *why) {
    if (!held(att_cuda_device_enter(m->gpu), why))
        return false;
    bool ok = m->stream || open_stream(m, why);
    for (int i = 0; ok && i < LAB_REGIONS; i++)
        if (m->region[i].host && !m->region[i].block)
            ok = allocate(m, &m->region[i], why);
    att_cuda_device_leave(m->gpu);
    return ok;
}

static bool finish(lab_mirror *m, const lab_operation *operation, const lab_args *args,
                   lab_buffer *workspace, lab_message *why) {
    m->any = *args;
    m->workspace = workspace->data;
    if (!m->gpu)
        return true;
    if (!reserve(m, why) || !lab_mirror_upload_inputs(m, why) ||
        !lab_mirror_upload_outputs(m, why)) {
        lab_mirror_close(m);
        return false;
    }
    operation->translate(&m->any, args, translate, m);
    m->workspace = translate(m, workspace->data);
    return true;
}

/* The context's GPU; NULL if it has none. */
static bool find_gpu(lab_mirror *m, const att_context *ctx, lab_message *why) {
    att_context_info info = {.size = sizeof info};
    *m = (lab_mirror){.gpu = NULL};
    if (!held(att_context_query(ctx, &info), why))
        return false;
    return info.device != ATT_DEVICE_CUDA ||
           held(att_cuda_device_open(&m->gpu, info.device_index), why);
}

static void add_buffer(lab_mirror *m, int index, const lab_buffer *b, bool output) {
    if (!b->map || !m->gpu)
        return;
    const bool bare = wants_exact();
    m->region[index] = (lab_region){
        .host = bare ? b->data : b->map,
        .bytes = bare ? b->bytes : b->map_bytes,
        .output = output,
        .sparse = b->bytes > LAB_BUFFER_LARGE,
        .data_at = bare ? 0 : (size_t)(b->data - b->map),
        .data_bytes = b->bytes,
        .poison = b->poison,
    };
}

bool lab_mirror_tensors(lab_mirror *m, att_context *ctx, lab_tensors *tensors,
                        lab_buffer *workspace, lab_message *why) {
    if (!find_gpu(m, ctx, why))
        return false;
    for (int i = 0; i < tensors->count; i++)
        add_buffer(m, i, &tensors->buffer[i], tensors->size[i].output);
    add_buffer(m, LAB_WORKSPACE, workspace, true);
    return finish(m, tensors->spec.operation, &tensors->any, workspace, why);
}

bool lab_mirror_args(lab_mirror *m, att_context *ctx, const lab_operation *operation,
                     const void *problem, const lab_args *args, lab_buffer *workspace,
                     lab_message *why) {
    _Alignas(16) char extents[ATT_EXTENTS_MAX];
    att_buffer list[ATT_BUFFERS_MAX];
    size_t ignored;
    if (!find_gpu(m, ctx, why) || !held(operation->library->check(problem, extents), why))
        return false;
    const int count = operation->library->buffers(problem, extents, args, list, &ignored);
    for (int i = 0; m->gpu && i < count; i++)
        if (list[i].base)
            m->region[i] = (lab_region){.host = (unsigned char *)(uintptr_t)list[i].base,
                                        .bytes = (size_t)list[i].extent,
                                        .output = list[i].output};
    add_buffer(m, LAB_WORKSPACE, workspace, true);
    return finish(m, operation, args, workspace, why);
}

bool lab_mirror_borrow(lab_mirror *m, const lab_mirror *lender, lab_buffer *workspace,
                       lab_message *why) {
    *m = *lender;
    m->borrows = true;
    m->region[LAB_WORKSPACE] = (lab_region){.host = NULL};
    add_buffer(m, LAB_WORKSPACE, workspace, true);
    m->workspace = workspace->data;
    if (!m->gpu)
        return true;
    if (!reserve(m, why) || !lab_mirror_upload_outputs(m, why)) {
        lab_mirror_close(m);
        return false;
    }
    m->workspace = translate(m, workspace->data);
    return true;
}

/* Smaller buffers are copied as fast as they are locked. */
enum { PINNED_BYTES = 1 << 18 };

void lab_mirror_pin(lab_mirror *m) {
    if (!m->gpu || att_cuda_device_enter(m->gpu) != ATT_OK)
        return;
    const att_cuda_driver *cu = att_cuda_device_driver(m->gpu);
    for (int i = 0; i < LAB_REGIONS; i++) {
        lab_region *r = &m->region[i];
        if (r->host && !r->pinned && !r->sparse && r->bytes >= PINNED_BYTES)
            r->pinned = cu->MemHostRegister(r->host, r->bytes, 0) == CUDA_SUCCESS;
    }
    att_cuda_device_leave(m->gpu);
}

static void release(lab_mirror *m, lab_region *r) {
    if (r->pinned)
        att_cuda_device_driver(m->gpu)->MemHostUnregister(r->host);
    lab_device_release(m->gpu, r->block, r->block_bytes, wants_exact());
}

void lab_mirror_close(lab_mirror *m) {
    if (m->gpu && att_cuda_device_enter(m->gpu) == ATT_OK) {
        const att_cuda_driver *cu = att_cuda_device_driver(m->gpu);
        if (m->stream)
            cu->StreamSynchronize(m->stream);
        if (m->stream && !m->borrows)
            cu->StreamDestroy(m->stream);
        for (int i = m->borrows ? LAB_WORKSPACE : 0; i < LAB_REGIONS; i++)
            release(m, &m->region[i]);
        att_cuda_device_leave(m->gpu);
    }
    *m = (lab_mirror){.gpu = NULL};
}
