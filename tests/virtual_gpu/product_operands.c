/* product_operands.c: the operands of wgmma in shared memory: where descriptors place their
 * elements. */
#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/product_operands.h"

#include <stdlib.h>

#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/shared_memory.h"

enum { UNIT = 16, UNIT_ELEMENTS = 8, CORE_ROWS = 8, WINDOW_BYTES = 1 << 18 };

unsigned swizzled(unsigned address, unsigned bytes) {
    return address ^ ((address >> 7 & (bytes / UNIT - 1)) << 4);
}

static unsigned field(uint64_t descriptor, int bit) {
    return (unsigned)(descriptor >> bit & 0x3fff) << 4;
}

product_operand product_operand_of(const vgpu_block *block, uint64_t descriptor, bool mn_major,
                                   int first, int count) {
    static const unsigned swizzles[] = {16, 128, 64, 32};
    enum { BASE_OFFSET = 49, SWIZZLE = 62 };
    if (descriptor >> BASE_OFFSET & 7)
        vgpu_fail(CHECK_INSTRUCTION,
                  "wgmma: a base offset in descriptor %016llx is not supported",
                  (unsigned long long)descriptor);
    return (product_operand){
        .start = (unsigned)block->rank << SHARED_WINDOW_BITS | field(descriptor, 0),
        .leading = field(descriptor, 16),
        .stride = field(descriptor, 32),
        .swizzle = swizzles[descriptor >> SWIZZLE],
        .mn_major = mn_major,
        .first = first,
        .count = count};
}

/* The address of 8 adjacent elements. K-major: elements from 8h on of row i. Core matrices have
 * 8 rows; without swizzling they are contiguous blocks of 128 bytes, `leading` apart along the
 * sum and `stride` across it. */
static unsigned unit_k_major(const product_operand *o, int i, int h) {
    const unsigned row = (unsigned)i % CORE_ROWS, core = (unsigned)i / CORE_ROWS;
    const unsigned along = o->swizzle == UNIT ? (unsigned)h * o->leading : (unsigned)h * UNIT;
    return swizzled(o->start + core * o->stride + row * o->swizzle + along, o->swizzle);
}

/* MN-major: elements i to i + 7 of summand k. A row has as many elements as are swizzled
 * together. */
static unsigned unit_mn_major(const product_operand *o, int i, int k) {
    const unsigned width = o->swizzle / 2, repeat = (unsigned)i / width,
                   within = (unsigned)i % width;
    const unsigned row = (unsigned)k % CORE_ROWS, core = (unsigned)k / CORE_ROWS;
    const unsigned across = o->swizzle == UNIT ? o->stride : o->leading,
                   down = o->swizzle == UNIT ? o->leading : o->stride;
    return swizzled(o->start + repeat * across + core * down + row * o->swizzle + 2 * within,
                    o->swizzle);
}

/* The number of units that are read, and the address of each. */
static int units_of(const product_operand *o) {
    return o->count * PRODUCT_DEPTH / UNIT_ELEMENTS;
}

static unsigned unit_at(const product_operand *o, int n) {
    if (o->mn_major)
        return unit_mn_major(o, o->first + n / PRODUCT_DEPTH * UNIT_ELEMENTS,
                             n % PRODUCT_DEPTH);
    return unit_k_major(o, o->first + n / 2, n % 2);
}

vgpu_range *product_ranges(const product_operand *operand, int *count) {
    static uint8_t used[WINDOW_BYTES / UNIT]; /* all zero between calls */
    const int units = units_of(operand);
    const unsigned window = operand->start >> SHARED_WINDOW_BITS << SHARED_WINDOW_BITS;
    unsigned least = WINDOW_BYTES / UNIT, most = 0;
    for (int n = 0; n < units; n++) {
        const unsigned unit = (unit_at(operand, n) - window) / UNIT;
        if (unit >= WINDOW_BYTES / UNIT)
            vgpu_fail(CHECK_BOUNDS, "wgmma reads shared memory at 0x%x", unit * UNIT);
        used[unit] = 1;
        least = unit < least ? unit : least;
        most = unit > most ? unit : most;
    }
    vgpu_range *ranges = allocate((size_t)units * sizeof *ranges);
    *count = 0;
    for (unsigned unit = least; unit <= most; unit++) {
        if (!used[unit])
            continue;
        used[unit] = 0;
        vgpu_range *last = *count ? &ranges[*count - 1] : NULL;
        const unsigned address = window + unit * UNIT;
        if (last && last->address + last->bytes == address)
            last->bytes += UNIT;
        else
            ranges[(*count)++] = (vgpu_range){address, UNIT};
    }
    return ranges;
}

static void read_unit(const product_operand *o, int n, uint16_t *out) {
    memcpy(out, shared_at(unit_at(o, n), UNIT, UNIT, "wgmma"), UNIT);
}

void product_read(const product_operand *operand, bool is_bf16,
                  float (*out)[PRODUCT_DEPTH][8]) {
    const int units = units_of(operand);
    uint16_t x[UNIT_ELEMENTS];
    for (int n = 0; n < units; n++) {
        read_unit(operand, n, x);
        for (int e = 0; e < UNIT_ELEMENTS; e++) {
            const float value = small_to_float(x[e], is_bf16);
            if (operand->mn_major)
                out[n / PRODUCT_DEPTH][n % PRODUCT_DEPTH][e] = value;
            else
                out[n / 16][n % 2 * UNIT_ELEMENTS + e][n / 2 % 8] = value;
        }
    }
}
