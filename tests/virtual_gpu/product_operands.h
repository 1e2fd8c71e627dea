/* product_operands.h: the operands of wgmma in shared memory: where descriptors place their
 * elements. */
#ifndef ATT_VGPU_PRODUCT_OPERANDS_H
#define ATT_VGPU_PRODUCT_OPERANDS_H

#include "tests/virtual_gpu/ptx.h"

enum { PRODUCT_DEPTH = 16, PRODUCT_ROWS = 16, PRODUCT_COLUMNS_MAX = 256 };

typedef struct product_operand {
    unsigned start;           /* address in shared memory */
    unsigned leading, stride; /* bytes */
    unsigned swizzle; /* bytes within which 16-byte chunks are permuted: 32, 64, 128; 16: not
                       * permuted */
    bool mn_major;    /* the 16 that are summed over are rows, not columns */
    int first, count; /* rows of A, or columns of B, that are read */
} product_operand;

/* Decode a descriptor. Fails on unsupported values. */
product_operand product_operand_of(const vgpu_block *block, uint64_t descriptor, bool mn_major,
                                   int first, int count);

/* Its ranges of shared memory, in order; from malloc(). */
vgpu_range *product_ranges(const product_operand *operand, int *count);

/* out[i / 8][k][i % 8] is element k of row or column i. */
void product_read(const product_operand *operand, bool is_bf16, float (*out)[PRODUCT_DEPTH][8]);

/* The address with the swizzle pattern of `bytes`. */
unsigned swizzled(unsigned address, unsigned bytes);

#endif
