/* mma.cuh: the tensor core instruction of Ampere and newer: one product per warp. */
#ifndef ATT_MMA_CUH
#define ATT_MMA_CUH

#include "kernels/config.cuh"

/* d (16 x 8, float32) += a (16 x 16) b (16 x 8), a and b of type DTYPE.
 *
 * Lane l holds, with row = l / 4 and pair = 2 (l % 4):
 *   a[0] (row, pair..+1)       a[1] (row + 8, pair..+1)
 *   a[2] (row, pair + 8..+9)   a[3] (row + 8, pair + 8..+9)
 *   b0   (pair..+1, row)       b1   (pair + 8..+9, row)
 *   d[0], d[1] (row, pair..+1)   d[2], d[3] (row + 8, pair..+1) */
DEVICE void mma_16x8x16(float d[4], const unsigned a[4], unsigned b0, unsigned b1) {
    if (DTYPE == BF16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                     "{%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                     "{%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* d = a b, for float16. */
DEVICE void mma_16x8x16_f16_alone(float d[4], const unsigned a[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%10, %10, %10, %10};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

#endif
