/* fake_tensor_map.h: tensor maps of the fake driver: checked like the real driver's, and stored
 * so that they can be read. */
#ifndef ATT_FAKE_TENSOR_MAP_H
#define ATT_FAKE_TENSOR_MAP_H

#include <stdbool.h>

#include "cuda/driver.h"

/* The contents of an att_tensor_map here, which is read in place: as another type than it was
 * copied as. */
typedef struct __attribute__((may_alias)) fake_tensor_map {
    char *address;
    uint64_t stride[4]; /* bytes, from the second axis on */
    uint32_t size[5];
    uint16_t box[5];
    uint8_t rank, type, swizzle, promotion;
    uint32_t encoded; /* FAKE_ENCODED, otherwise it is not a map */
} fake_tensor_map;

enum { FAKE_ENCODED = 0x70614d54 };

/* Not used by the library itself, but future kernels may use them. */
enum { FAKE_MAP_FLOAT32 = 7, FAKE_SWIZZLE_32B = 1, FAKE_SWIZZLE_64B = 2 };

static inline unsigned fake_element_bytes(int type) {
    return type == FAKE_MAP_FLOAT32 ? 4 : 2;
}

CUresult fake_map_encode(CUtensorMap *map, int type, unsigned int rank, void *address,
                         const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                         const uint32_t *steps, int interleave, int swizzle, int promotion,
                         int fill);
CUresult fake_map_replace(CUtensorMap *map, void *address);

/* The map's contents; NULL if it is not a map. */
static inline const fake_tensor_map *fake_map_of(const att_tensor_map *map) {
    const fake_tensor_map *out = (const void *)map;
    return out->encoded == FAKE_ENCODED ? out : NULL;
}

/* The element at these coordinates, innermost first, or its first 16 bits; NULL if they are out
 * of bounds: a load gives zero there, a store writes nothing. */
uint16_t *fake_map_at(const fake_tensor_map *map, const long long *at);

#endif
