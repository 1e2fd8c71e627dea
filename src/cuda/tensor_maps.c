/* tensor_maps.c: tensors of 16-bit elements as Hopper's copy engine walks them. */
#include "cuda/tensor_maps.h"

#include <stdbool.h>

#include "base/checked.h"

enum { ELEMENT = 2, UNIT = 16 }; /* bytes; strides are multiples of UNIT */

att_status att_cuda_tensor_map_encode(att_tensor_map *out, const att_cuda_driver *cu,
                                      att_dtype dtype, const att_tensor_walk *walk,
                                      const char *kernel) {
    static const uint32_t steps[ATT_TENSOR_RANK_MOST] = {1, 1, 1, 1, 1};
    void *const none = (void *)(uintptr_t)1024; /* aligned like every tensor */
    uint64_t sizes[ATT_TENSOR_RANK_MOST], strides[ATT_TENSOR_RANK_MOST - 1];
    uint32_t box[ATT_TENSOR_RANK_MOST];
    bool empty = false;
    for (int i = 0; i < walk->rank; i++)
        empty = empty || walk->axis[i].size == 0;
    for (int i = 0; i < walk->rank; i++) {
        sizes[i] = empty ? 1 : (uint64_t)walk->axis[i].size;
        box[i] = (uint32_t)walk->axis[i].box;
        if (i == 0)
            continue;
        /* An axis of size 1 gets any legal stride. */
        const int64_t legal = att_round_up((int64_t)sizes[0] * ELEMENT, UNIT);
        strides[i - 1] = (uint64_t)(sizes[i] > 1 ? walk->axis[i].stride * ELEMENT : legal);
    }
    return ATT_CUDA(
        cu, kernel, TensorMapEncodeTiled, out,
        dtype == ATT_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        (unsigned)walk->rank, none, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        box[0] == 32 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

att_status att_cuda_tensor_map_point(att_tensor_map *map, const att_cuda_driver *cu,
                                     const void *address, const char *kernel) {
    return address ? ATT_CUDA(cu, kernel, TensorMapReplaceAddress, map, (void *)address)
                   : ATT_OK;
}
