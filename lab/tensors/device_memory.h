/* device_memory.h: the tensors of a problem where its context runs: in place on the CPU,
 * mirrored on a GPU.
 *
 * On a GPU whole buffers are copied, including guards and padding, so that after a download
 * every check of the host's copy is a check of the kernel. On the CPU every function here does
 * nothing and succeeds.
 *
 * With the environment variable ATTEST_LAB_EXACT=1 every tensor gets a GPU allocation of
 * exactly its size, without guards, so that compute-sanitizer sees the first byte that is read
 * past it. */
#ifndef LAB_DEVICE_MEMORY_H
#define LAB_DEVICE_MEMORY_H

#include "attest.h"
#include "lab/base/message.h"
#include "lab/tensors/buffer.h"
#include "lab/tensors/tensors.h"

/* A piece of host memory and its copy. */
typedef struct lab_region {
    unsigned char *host; /* NULL: unused */
    size_t bytes;
    bool output; /* the kernel writes it */
    bool sparse; /* pages that were never touched are zeros and are not copied individually */
    size_t data_at, data_bytes; /* the part between the guards */
    unsigned char poison;
    unsigned char *device;
    void *block; /* the allocation */
    size_t block_bytes;
    bool pinned; /* the driver has locked the host's pages */
} lab_region;

enum { LAB_WORKSPACE = LAB_TENSORS_MAX, LAB_REGIONS };

typedef struct lab_mirror {
    union { /* for a run, as are the next two */
        lab_args any;
        att_args args; /* of attention */
    };
    void *workspace; /* NULL if none is needed */
    void *stream;    /* NULL on the CPU */

    struct att_cuda_device *gpu; /* NULL on the CPU */
    bool borrows;                /* everything except the workspace belongs to another mirror,
                                  * also the stream */
    lab_region region[LAB_REGIONS];
} lab_mirror;

/* Mirror the tensors and the workspace on the context's device and copy everything there. Fails
 * if there is not enough memory, or a CUDA call fails. */
bool lab_mirror_tensors(lab_mirror *mirror, att_context *ctx, lab_tensors *tensors,
                        lab_buffer *workspace, lab_message *why);

/* The same for the caller's pointers: everything that a problem of the operation reaches
 * through `args`. */
bool lab_mirror_args(lab_mirror *mirror, att_context *ctx, const lab_operation *operation,
                     const void *problem, const lab_args *args, lab_buffer *workspace,
                     lab_message *why);

/* Use the tensors of `lender`, which must outlive this mirror, at the same addresses and on the
 * same stream, with a separate workspace. */
bool lab_mirror_borrow(lab_mirror *mirror, const lab_mirror *lender, lab_buffer *workspace,
                       lab_message *why);

/* Lock the host's pages, for tensors that are copied often: copies are then several times as
 * fast. If the system does not allow it, copies stay as they are. */
void lab_mirror_pin(lab_mirror *mirror);

/* Copy the kernel's outputs to the device in their current state on the host: poisoned or
 * fresh. */
bool lab_mirror_upload_outputs(lab_mirror *mirror, lab_message *why);

/* Poison the kernel's outputs on the device, in the order of `stream` and without waiting:
 * earlier work on the stream may still write, later work finds poison. Outputs too large for
 * that are copied from the host, where they must be poisoned. */
bool lab_mirror_poison_outputs(lab_mirror *mirror, void *stream, lab_message *why);

/* Copy the inputs to the device again, after the host's copy changed. */
bool lab_mirror_upload_inputs(lab_mirror *mirror, lab_message *why);

/* Wait for the stream; a fault of the kernel is reported here. */
bool lab_mirror_wait(lab_mirror *mirror, lab_message *why);

/* Wait, then copy the kernel's outputs to the host; the second copies everything. */
bool lab_mirror_download_outputs(lab_mirror *mirror, lab_message *why);
bool lab_mirror_download_inputs(lab_mirror *mirror, lab_message *why);

/* Free the memory; it is kept for the next mirror of this process. */
void lab_mirror_close(lab_mirror *mirror);

#endif
