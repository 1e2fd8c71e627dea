/* fake_tensor_map.h: tensor maps of the driver that is none: checked as the real one checks them, kept so that they can be
 * read. */
#ifndef ATT_FAKE_TENSOR_MAP_H
#define ATT_FAKE_TENSOR_MAP_H

#include <stdbool.h>

#include "cuda/driver.h"

/* What an att_tensor_map holds here. */
typedef struct fake_tensor_map {
    char *address;
    uint64_t stride[4]; /* bytes, of the second axis on */
    uint32_t size[5];
    uint16_t box[5];
    uint8_t rank, type, swizzle, promotion;
    uint32_t encoded; /* FAKE_ENCODED, or it is no map */
} fake_tensor_map;

enum { FAKE_ENCODED = 0x70614d54 };

/* What the library itself does not ask for, but kernels to come may. */
enum { FAKE_MAP_FLOAT32 = 7, FAKE_SWIZZLE_32B = 1, FAKE_SWIZZLE_64B = 2 };

static inline unsigned fake_element_bytes(int type) {
    return type == FAKE_MAP_FLOAT32 ? 4 : 2;
}

CUresult fake_map_encode(CUtensorMap *map, int type, unsigned int rank, void *address,
                         const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                         const uint32_t *steps, int interleave, int swizzle, int promotion,
                         int fill);
CUresult fake_map_replace(CUtensorMap *map, void *address);

/* The map's contents; NULL where it is none. */
static inline const fake_tensor_map *fake_map_of(const att_tensor_map *map) {
    const fake_tensor_map *out = (const void *)map;
    return out->encoded == FAKE_ENCODED ? out : NULL;
}

/* The element at these coordinates, innermost first, or its first 16 bits; NULL where they are out of bounds: a load has zero there, a
 * store writes nothing. */
uint16_t *fake_map_at(const fake_tensor_map *map, const long long *at);

#endif
