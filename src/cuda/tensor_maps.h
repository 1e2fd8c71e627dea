/* tensor_maps.h: tensors of 16-bit elements as Hopper's copy engine walks them. */
#ifndef ATT_CUDA_TENSOR_MAPS_H
#define ATT_CUDA_TENSOR_MAPS_H

#include "cuda/driver.h"

enum { ATT_TENSOR_RANK_MOST = 5 };

/* The copy engine supports strides below this, in bytes. */
#define ATT_TENSOR_STRIDE_END (INT64_C(1) << 40)

/* A tensor and the box that one copy moves, innermost axis first. */
typedef struct att_tensor_walk {
    int rank;
    struct {
        int64_t size;   /* 0 counts as 1: nothing is ever copied from there */
        int64_t stride; /* elements; 1 for the first axis, anything for an axis of size 1 */
        int box;        /* 1 to 256 elements; those outside the tensor are loaded as zeros */
    } axis[ATT_TENSOR_RANK_MOST];
} att_tensor_walk;

/* Fill in a map that swizzles rows of 128 bytes, or of 64 if the box is 32 elements wide. Its
 * address is a placeholder: a run copies the map and sets the address of its tensor. `kernel`
 * is named in errors. Errors: ATT_E_CUDA. */
att_status att_cuda_tensor_map_encode(att_tensor_map *out, const att_cuda_driver *cu,
                                      att_dtype dtype, const att_tensor_walk *walk,
                                      const char *kernel);

/* Set the tensor of the map; NULL for a tensor without elements. Allocates nothing. */
att_status att_cuda_tensor_map_point(att_tensor_map *map, const att_cuda_driver *cu,
                                     const void *address, const char *kernel);

#endif
