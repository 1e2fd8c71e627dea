/* memory_place.h: resolves an address of an instruction, or a pointer of C code, to shared or
 * to global memory. */
#ifndef ATT_VGPU_MEMORY_PLACE_H
#define ATT_VGPU_MEMORY_PLACE_H

#include "tests/virtual_gpu/ptx.h"

/* In the order of this part of a row's name. */
#define MEMORY_SPACES "(|.global|.shared|.shared::cta|.shared::cluster)"
typedef enum memory_space {
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_SHARED,
    SPACE_SHARED_CTA,
    SPACE_SHARED_CLUSTER
} memory_space;

typedef enum memory_access {
    MEMORY_READ,
    MEMORY_WRITE,
    MEMORY_ATOMIC,
    MEMORY_STRONG_READ /* volatile, relaxed or acquire: it may meet a strong write */
} memory_access;

typedef struct memory_place {
    char *memory;
    bool is_shared;
} memory_place;

/* Resolve it and check the access: alignment, bounds, and the state of the place. */
memory_place memory_touch(vgpu_lane *lane, memory_space space, uint64_t address, unsigned bytes,
                          memory_access access, const char *what);

#endif
