/* npy_header.h: the text header of a .npy file, parsed and formatted in memory. */
#ifndef LAB_NPY_HEADER_H
#define LAB_NPY_HEADER_H

#include "lab/problem/npy.h"

/* Longest header this reader accepts; NumPy's own are under 200 bytes. */
enum { LAB_NPY_HEADER_MAX = 65536 };

/* Parse the start of a file. On success type, dims, shape and count of `out` are set, and
 * *data_offset is the offset of the elements. `path` is used in messages. */
bool lab_npy_header_parse(lab_npy *out, size_t *data_offset, const unsigned char *bytes,
                          size_t n, const char *path, lab_message *why);

/* Write a version 1.0 header of a multiple of 64 bytes; returns its length. */
size_t lab_npy_header_format(char out[512], lab_npy_type type, int dims, const int64_t *shape);

/* Elements and bytes of a shape; fails if they do not fit in 63 bits. */
bool lab_npy_shape_bytes(lab_npy_type type, int dims, const int64_t *shape, int64_t *count,
                         int64_t *bytes, const char *path, lab_message *why);

#endif
