/* bwd_store.cuh: stores gradients. */
#ifndef ATT_BWD_STORE_CUH
#define ATT_BWD_STORE_CUH

#include "kernels/bwd_params.h"
#include "kernels/convert.cuh"

/* Store two neighbouring columns of a row, starting at `column`. */
DEVICE void store_pair(const att_bwd_params *p, void *base, long long row, int column, int d, float x, float y) {
    if (column >= d)
        return;
    const long long at = row + column;
    if (p->flags & ATT_BWD_PAIRS && column + 1 < d) {
        if (p->dtype_grad == F32)
            *(float2 *)((float *)base + at) = make_float2(x, y);
        else
            *(unsigned *)((half_bits *)base + at) = pack_16(DTYPE, x, y);
        return;
    }
    store_from_float(base, at, p->dtype_grad, x);
    if (column + 1 < d)
        store_from_float(base, at + 1, p->dtype_grad, y);
}

#endif
