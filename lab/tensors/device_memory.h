/* device_memory.h: the tensors of a problem where its context runs: in place on the CPU, mirrored on a GPU.
 *
 * On a GPU whole buffers travel, guards and padding included, so that after a download every check of the
 * host's copy is a check of what the kernel did. On the CPU every function here does nothing and succeeds.
 *
 * The environment's ATTEST_LAB_EXACT=1 gives every tensor a GPU allocation of exactly its size, without
 * guards, so that compute-sanitizer sees the first byte that is read past it. */
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
    bool sparse; /* pages that were never touched are zeros, and are not copied one by one */
    size_t data_at, data_bytes; /* what lies between the guards */
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
    void *workspace; /* NULL where none is needed */
    void *stream;    /* NULL on the CPU */

    struct att_cuda_device *gpu; /* NULL on the CPU */
    bool borrows;                /* all but the workspace is another mirror's, the stream too */
    lab_region region[LAB_REGIONS];
} lab_mirror;

/* Mirror the tensors and the workspace on the context's device and copy everything there. Fails where there
 * is not the memory, or where a CUDA call fails. */
bool lab_mirror_tensors(lab_mirror *mirror, att_context *ctx, lab_tensors *tensors,
                        lab_buffer *workspace, lab_message *why);

/* The same for pointers of the caller: what a problem of the operation reaches through `args`. */
bool lab_mirror_args(lab_mirror *mirror, att_context *ctx, const lab_operation *operation,
                     const void *problem, const lab_args *args, lab_buffer *workspace,
                     lab_message *why);

/* The tensors of `lender`, which must outlive it, at the same addresses and on the same stream, with a workspace of its own. */
bool lab_mirror_borrow(lab_mirror *mirror, const lab_mirror *lender, lab_buffer *workspace,
                       lab_message *why);

/* Lock the host's pages, for tensors that travel often: they are then copied several times as fast. Where the system does not allow it,
 * they travel as before. */
void lab_mirror_pin(lab_mirror *mirror);

/* Copy what the kernel writes to the device as it stands on the host: poisoned, or fresh. */
bool lab_mirror_upload_outputs(lab_mirror *mirror, lab_message *why);

/* Poison on the device what the kernel writes, in the order of `stream` and without waiting: what was put on
 * the stream before may still write, what comes after finds poison. Outputs too large for that are copied
 * from the host, where they must be poisoned. */
bool lab_mirror_poison_outputs(lab_mirror *mirror, void *stream, lab_message *why);

/* Copy inputs to the device again, after the host's changed. */
bool lab_mirror_upload_inputs(lab_mirror *mirror, lab_message *why);

/* Wait for the stream; a fault of the kernel is named here. */
bool lab_mirror_wait(lab_mirror *mirror, lab_message *why);

/* Wait, then copy to the host what the kernel writes; and all the rest. */
bool lab_mirror_download_outputs(lab_mirror *mirror, lab_message *why);
bool lab_mirror_download_inputs(lab_mirror *mirror, lab_message *why);

/* Give the memory back; it is kept for the next mirror of this process. */
void lab_mirror_close(lab_mirror *mirror);

#endif
