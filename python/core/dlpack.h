/* dlpack.h: the structs that Python arrays exchange by DLPack 1.x, declared here: a memory
 * layout, not a library.
 *
 * `dl_exchange` is the newer protocol: a table of functions that a framework stores on its
 * array type as `__dlpack_c_exchange_api__`. It makes no Python objects, so a call costs
 * nanoseconds, not microseconds. */
#ifndef ATTEST_PYTHON_DLPACK_H
#define ATTEST_PYTHON_DLPACK_H

#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };
enum { DL_READ_ONLY = 1 }; /* a bit of dl_managed.flags */

typedef struct dl_device {
    int32_t type, id;
} dl_device;

typedef struct dl_type {
    uint8_t code, bits;
    uint16_t lanes;
} dl_type;

typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_type type;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: contiguous */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_version {
    uint32_t major, minor;
} dl_version;

/* In a capsule named "dltensor_versioned". */
typedef struct dl_managed {
    dl_version version;
    void *manager;
    void (*deleter)(struct dl_managed *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed;

/* In a capsule named "dltensor": from before DLPack had versions. */
typedef struct dl_managed_plain {
    dl_tensor tensor;
    void *manager;
    void (*deleter)(struct dl_managed_plain *self);
} dl_managed_plain;

typedef void dl_set_error(void *context, const char *kind, const char *message);

/* In a capsule named "dlpack_exchange_api". Functions return 0, or set a Python error. */
typedef struct dl_exchange {
    dl_version version;
    const struct dl_exchange *previous; /* of an older major version, or NULL */
    int (*allocate)(dl_tensor *prototype, dl_managed **out, void *context, dl_set_error *fail);
    int (*managed_from_object)(void *object, dl_managed **out);
    int (*object_from_managed)(dl_managed *tensor, void **object);
    int (*tensor_from_object)(void *object, dl_tensor *out); /* may be NULL; owns nothing */
    int (*current_stream)(int32_t device_type, int32_t device_id, void **stream);
} dl_exchange;

#endif
