/* tensor_map.h: a tensor's description for Hopper's copy engine: a CUtensorMap, which the
 * driver fills in and which is otherwise opaque. Read as C11, as CUDA C and by NVRTC, so it
 * includes nothing. */
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
