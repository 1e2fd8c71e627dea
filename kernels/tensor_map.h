/* tensor_map.h: what the copy engine of Hopper knows of a tensor: a CUtensorMap, which the driver fills in and nobody reads.
 * Read by C11, by CUDA C and by NVRTC, so it includes nothing. */
#ifndef ATT_TENSOR_MAP_H
#define ATT_TENSOR_MAP_H

#ifdef __cplusplus
#define ATT_ALIGN_64 alignas(64)
#else
#define ATT_ALIGN_64 _Alignas(64)
#endif

typedef struct att_tensor_map {
    ATT_ALIGN_64 unsigned long long opaque[16];
} att_tensor_map;

#endif
