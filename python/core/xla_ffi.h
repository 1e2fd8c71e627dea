/* xla_ffi.h: the structs that XLA passes to a foreign function (its C interface 0.x), declared
 * here: a memory layout, not a library. Structs begin with their size; newer releases append
 * fields. */
#ifndef ATTEST_PYTHON_XLA_FFI_H
#define ATTEST_PYTHON_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

enum { XLA_EXTENSION_METADATA = 1 };
enum { XLA_STAGE_EXECUTE = 3 };
enum { XLA_BUFFER = 1, XLA_ATTRIBUTE_ARRAY = 1 };
enum { XLA_S64 = 5 }; /* an element type */
enum {
    XLA_INVALID_ARGUMENT = 3,
    XLA_RESOURCE_EXHAUSTED = 8,
    XLA_UNIMPLEMENTED = 12,
    XLA_INTERNAL = 13
};

typedef struct xla_extension {
    size_t size;
    int type;
    struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
    size_t size;
    xla_extension *extension;
    int major, minor;
} xla_version;

/* Requested when a handler is registered: its frame has this as an extension, and the handler
 * fills it. */
typedef struct xla_metadata {
    size_t size;
    xla_version version;
    uint32_t traits;
} xla_metadata;

typedef struct xla_metadata_extension {
    xla_extension base;
    xla_metadata *metadata;
} xla_metadata_extension;

typedef struct xla_buffer {
    size_t size;
    xla_extension *extension;
    int type;
    void *data;
    int64_t rank;
    int64_t *dims;
} xla_buffer;

typedef struct xla_array {
    int type;
    size_t count;
    void *data;
} xla_array;

typedef struct xla_text {
    const char *data;
    size_t length;
} xla_text;

/* Arguments, results. */
typedef struct xla_values {
    size_t size;
    xla_extension *extension;
    int64_t count;
    int *types;
    void **values;
} xla_values;

typedef struct xla_attributes {
    size_t size;
    xla_extension *extension;
    int64_t count;
    int *types;
    xla_text **names;
    void **values;
} xla_attributes;

typedef struct xla_error xla_error;     /* made and freed by XLA */
typedef struct xla_context xla_context; /* of a call */

typedef struct xla_error_args {
    size_t size;
    xla_extension *extension;
    const char *message;
    int code;
} xla_error_args;

typedef struct xla_stream_args {
    size_t size;
    xla_extension *extension;
    xla_context *context;
    void *stream; /* out */
} xla_stream_args;

typedef struct xla_allocate_args {
    size_t size;
    xla_extension *extension;
    xla_context *context;
    size_t bytes, alignment;
    void *data; /* out */
} xla_allocate_args;

typedef struct xla_free_args {
    size_t size;
    xla_extension *extension;
    xla_context *context;
    size_t bytes;
    void *data;
} xla_free_args;

typedef struct xla_ordinal_args {
    size_t size;
    xla_extension *extension;
    xla_context *context;
    int32_t ordinal; /* out */
} xla_ordinal_args;

typedef void xla_unused(void);

typedef struct xla_api {
    size_t size;
    xla_extension *extension;
    xla_version version;
    const void *internal;
    xla_error *(*error_create)(xla_error_args *args);
    xla_unused *error_message, *error_destroy, *handler_register;
    xla_error *(*stream_get)(xla_stream_args *args);
    xla_unused *type_register, *context_get, *state_set, *state_get;
    xla_error *(*memory_allocate)(xla_allocate_args *args);
    xla_error *(*memory_free)(xla_free_args *args);
    xla_unused *pool_schedule, *pool_threads, *future_create, *future_available, *future_error,
        *run_id;
    xla_error *(*device_ordinal)(xla_ordinal_args *args); /* from 0.2 on: check `size` */
} xla_api;

typedef struct xla_frame {
    size_t size;
    xla_extension *extension;
    const xla_api *api;
    xla_context *context;
    int stage;
    xla_values arguments, results;
    xla_attributes attributes;
} xla_frame;

#endif
