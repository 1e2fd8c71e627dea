/* abi.h: what a kernel that is compiled for the host and the virtual GPU that runs it say to each other. C and C++.
 *
 * rewrite.c turns every asm statement of a kernel into a call of vgpu_run_asm() and cuda_builtins.h turns the built-ins of CUDA C
 * into the others. The functions are in the driver's library, to which a kernel's shared object is linked when it is opened. */
#ifndef ATT_VGPU_ABI_H
#define ATT_VGPU_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vgpu_dim3 {
    unsigned x, y, z;
} vgpu_dim3;

/* Who runs: set whenever a lane goes on. The runtime's lane begins with it. */
typedef struct vgpu_thread {
    vgpu_dim3 thread, block;
} vgpu_thread;

extern vgpu_thread *vgpu_self;
extern vgpu_dim3 vgpu_grid_size, vgpu_block_size; /* of the launch that vgpu_self belongs to */

/* An asm statement. `constraints` has those of its operands, separated by a space, outputs first ("=r", "+f", "l"); an operand
 * that is written is given by its address, the others by their bits. */
typedef struct vgpu_asm {
    const char *ptx, *constraints, *file;
    int line;
    void *program; /* what the reader made of it; NULL: not read yet */
} vgpu_asm;

void vgpu_run_asm(vgpu_asm *statement, const uint64_t *operands);

/* Dynamic shared memory of the block that runs. Addresses: block r of a cluster has r << 24 and on. */
void *vgpu_dynamic_shared(void);
void *vgpu_from_shared(unsigned address);
unsigned vgpu_to_shared(const void *pointer);

/* What the lanes named by `mask` do together. `value` are the bits of the argument, `other` the lane that a shuffle
 * takes it from; the result are bits. */
enum {
    VGPU_SYNCWARP,
    VGPU_SHUFFLE,
    VGPU_BALLOT,
    VGPU_ANY,
    VGPU_ALL,
    VGPU_REDUCE_MAX, /* unsigned */
    VGPU_REDUCE_MIN,
    VGPU_REDUCE_ADD,
    VGPU_REDUCE_OR,
    VGPU_REDUCE_AND
};
uint64_t vgpu_vote(int what, unsigned mask, uint64_t value, int other, const char *file,
                   int line);

void vgpu_syncthreads(const char *file, int line);
void vgpu_threadfence(
    const char *file,
    int line); /* __threadfence(): what is written before is seen before what comes after */

/* Atomics, of 4 or 8 bytes, in shared or global memory: the old bits are given. */
enum {
    VGPU_ATOMIC_ADD,
    VGPU_ATOMIC_ADD_FLOAT,
    VGPU_ATOMIC_OR,
    VGPU_ATOMIC_AND,
    VGPU_ATOMIC_MAX,
    VGPU_ATOMIC_MIN,
    VGPU_ATOMIC_EXCH,
    VGPU_ATOMIC_CAS
};
uint64_t vgpu_atomic(int what, void *address, int bytes, uint64_t value, uint64_t compare,
                     const char *file, int line);

/* __ldcg() and volatile reads: others may go on before it. */
void vgpu_pause(const char *file, int line);

/* What a kernel's shared object exports, as `vgpu_entry`. */
typedef struct vgpu_entry_point {
    void (*run)(const void *params); /* one lane */
    size_t params_bytes;
    int is_watched; /* the compiler put a call before every load and store of its C code */
    char *static_begin, *static_end; /* its static shared memory; equal: none */
    const unsigned *aligns_begin,
        *aligns_end; /* what its dynamic shared memory is declared to be aligned to */
} vgpu_entry_point;

#ifdef __cplusplus
}
#endif

#endif
