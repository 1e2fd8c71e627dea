/* product_operands.h: the operands of wgmma that lie in shared memory: where descriptors say their elements are. */
#ifndef ATT_VGPU_PRODUCT_OPERANDS_H
#define ATT_VGPU_PRODUCT_OPERANDS_H

#include "tests/virtual_gpu/ptx.h"

enum { PRODUCT_DEPTH = 16, PRODUCT_ROWS = 16, PRODUCT_COLUMNS_MAX = 256 };

typedef struct product_operand {
    unsigned start;           /* address in shared memory */
    unsigned leading, stride; /* bytes */
    unsigned
        swizzle; /* bytes after which rows of 16 bytes change places: 32, 64, 128; 16: they do not */
    bool mn_major;    /* the 16 that are summed over are rows, not columns */
    int first, count; /* rows of A, or columns of B, that are read */
} product_operand;

/* What a descriptor says. Fails where it says what is not known. */
product_operand product_operand_of(const vgpu_block *block, uint64_t descriptor, bool mn_major,
                                   int first, int count);

/* Its ranges of shared memory, in order; from malloc(). */
vgpu_range *product_ranges(const product_operand *operand, int *count);

/* out[i / 8][k][i % 8] is element k of row or column i. */
void product_read(const product_operand *operand, bool is_bf16, float (*out)[PRODUCT_DEPTH][8]);

/* The same address with the pattern of swizzling `bytes`. */
unsigned swizzled(unsigned address, unsigned bytes);

#endif
