/* npy.h: NumPy .npy files, read and written through mmap without a copy. */
#ifndef LAB_NPY_H
#define LAB_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/base/atomic_file.h"
#include "lab/base/message.h"

/* Little-endian element types, with NumPy's names. */
typedef enum lab_npy_type {
    LAB_NPY_BOOL,
    LAB_NPY_UINT8,
    LAB_NPY_UINT16,
    LAB_NPY_RAW16,    /* '|V2', two untyped bytes: bfloat16 that NumPy has read and written
                       * again */
    LAB_NPY_BFLOAT16, /* '<V2', as np.save writes arrays of ml_dtypes.bfloat16 (and of JAX) */
    LAB_NPY_INT32,
    LAB_NPY_INT64,
    LAB_NPY_FLOAT16,
    LAB_NPY_FLOAT32,
    LAB_NPY_FLOAT64
} lab_npy_type;

enum { LAB_NPY_MAX_DIMS = 8 };

const char *lab_npy_type_name(lab_npy_type type);
size_t lab_npy_type_size(lab_npy_type type);

/* An array on disk, in C order, mapped read-only. */
typedef struct lab_npy {
    lab_npy_type type;
    int dims;
    int64_t shape[LAB_NPY_MAX_DIMS];
    int64_t count; /* elements */
    const void *data;
    void *mapping; /* the whole file */
    size_t mapping_bytes;
} lab_npy;

/* Map the array in `path`. Every byte of the header is checked before it is used. Fails, naming
 * the file, unless it is a complete .npy file in C order of a type listed above. */
bool lab_npy_open(lab_npy *out, const char *path, lab_message *why);
void lab_npy_close(lab_npy *array);

/* An array being written: a temporary file until it is committed. */
typedef struct lab_npy_writer {
    void *data; /* room for the elements, zeroed; NULL once committed or discarded */
    void *mapping;
    size_t mapping_bytes;
    lab_atomic_file file;
} lab_npy_writer;

/* Reserve the disk space for an array (so that a full disk is found here, not while computing)
 * and map it for writing. An existing file at `path` must be a regular file. */
bool lab_npy_create(lab_npy_writer *out, const char *path, lab_npy_type type, int dims,
                    const int64_t *shape, lab_message *why);

/* Put the finished array in place of `path`, atomically. On failure `path` is unchanged. */
bool lab_npy_commit(lab_npy_writer *writer, lab_message *why);

/* Discard an array that was not committed; does nothing after a commit or on a zeroed
 * writer. */
void lab_npy_discard(lab_npy_writer *writer);

#endif
