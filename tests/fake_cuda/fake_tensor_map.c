/* fake_tensor_map.c: tensor maps of the fake driver. */
#include "tests/fake_cuda/fake_tensor_map.h"

#include <string.h>

enum { BOX_MOST = 256, STEP_MOST = 8, ADDRESS_UNIT = 16, MAP_UNIT = 64 };
static const uint64_t size_most = UINT64_C(1) << 32, stride_end = UINT64_C(1) << 40;

_Static_assert(sizeof(fake_tensor_map) <= sizeof(att_tensor_map), "a map holds it");

static bool is_aligned(const void *address, uintptr_t unit) {
    return (uintptr_t)address % unit == 0;
}

static bool is_legal(unsigned int rank, const uint64_t *sizes, const uint64_t *strides,
                     const uint32_t *box, const uint32_t *steps) {
    for (unsigned i = 0; i < rank; i++) {
        if (sizes[i] == 0 || sizes[i] > size_most || box[i] == 0 || box[i] > BOX_MOST)
            return false;
        if (steps[i] == 0 || steps[i] > STEP_MOST)
            return false;
        if (i > 0 && (strides[i - 1] == 0 || strides[i - 1] % ADDRESS_UNIT != 0 ||
                      strides[i - 1] >= stride_end))
            return false;
    }
    return true;
}

CUresult fake_map_encode(CUtensorMap *map, int type, unsigned int rank, void *address,
                         const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                         const uint32_t *steps, int interleave, int swizzle, int promotion,
                         int fill) {
    const bool known = (type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 ||
                        type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 || type == FAKE_MAP_FLOAT32) &&
                       interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
                       fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE &&
                       swizzle >= CU_TENSOR_MAP_SWIZZLE_NONE &&
                       swizzle <= CU_TENSOR_MAP_SWIZZLE_128B;
    if (!known || rank < 1 || rank > 5 || !map || !is_aligned(map, MAP_UNIT) ||
        !is_aligned(address, ADDRESS_UNIT) || !is_legal(rank, sizes, strides, box, steps))
        return CUDA_ERROR_INVALID_VALUE;
    const uint32_t inner = fake_element_bytes(type) * box[0];
    const uint32_t swizzled_bytes = (uint32_t)ADDRESS_UNIT << swizzle; /* 32, 64, 128 */
    if (inner % ADDRESS_UNIT != 0 ||
        (swizzle != CU_TENSOR_MAP_SWIZZLE_NONE && inner > swizzled_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    fake_tensor_map out = {.address = address,
                           .rank = (uint8_t)rank,
                           .type = (uint8_t)type,
                           .swizzle = (uint8_t)swizzle,
                           .promotion = (uint8_t)promotion,
                           .encoded = FAKE_ENCODED};
    for (unsigned i = 0; i < rank; i++) {
        out.size[i] = (uint32_t)sizes[i];
        out.box[i] = (uint16_t)box[i];
        if (i > 0)
            out.stride[i - 1] = strides[i - 1];
    }
    memcpy(map, &out, sizeof out);
    return CUDA_SUCCESS;
}

CUresult fake_map_replace(CUtensorMap *map, void *address) {
    if (!map || !is_aligned(map, MAP_UNIT) || !is_aligned(address, ADDRESS_UNIT) ||
        !fake_map_of(map))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(map, &address, sizeof address);
    return CUDA_SUCCESS;
}

uint16_t *fake_map_at(const fake_tensor_map *map, const long long *at) {
    char *place = map->address;
    for (int i = 0; i < map->rank; i++) {
        if (at[i] < 0 || at[i] >= (long long)map->size[i])
            return NULL;
        place +=
            (uint64_t)at[i] * (i == 0 ? fake_element_bytes(map->type) : map->stride[i - 1]);
    }
    return (uint16_t *)(void *)place;
}
