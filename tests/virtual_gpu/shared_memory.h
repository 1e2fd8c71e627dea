/* shared_memory.h: shared memory by address, and the state of each of its places.
 *
 * Each block of a cluster has a window of the address space: block r starts at r << 24. */
#ifndef ATT_VGPU_SHARED_MEMORY_H
#define ATT_VGPU_SHARED_MEMORY_H

#include "tests/virtual_gpu/async.h"
#include "tests/virtual_gpu/lanes.h"

enum { SHARED_WINDOW_BITS = 24 };

/* The block of the running cluster that the address belongs to. Out of bounds fails. */
vgpu_block *shared_block(unsigned address);

/* While no lane runs, addresses refer to this block's cluster. */
void shared_for(const vgpu_block *block);

/* Its host address; `bytes` must be within the block's shared memory and `align` must divide
 * the address, or it fails. */
char *shared_at(unsigned address, unsigned bytes, unsigned align, const char *what);

typedef enum shared_access {
    SHARED_READ,       /* by a thread */
    SHARED_WRITE,      /* by a thread */
    SHARED_ASYNC_READ, /* by the copy engine or the tensor cores, which see a thread's writes
                        * after its fence */
    SHARED_ATOMIC
} shared_access;

/* Check an access by `lane`, which may be another than the running one: bounds; a copy that
 * writes there; a copy or product that still reads what is overwritten; unwritten bytes; the
 * fence; races. `what` names the instruction. */
void shared_touch(vgpu_lane *lane, unsigned address, unsigned bytes, shared_access access,
                  const char *what);

/* The same by host address, for accesses of C code. */
void shared_touch_memory(vgpu_lane *lane, const void *memory, unsigned bytes,
                         shared_access access);

/* The range is in flight until the copy lands: nobody may touch it. It is filled with
 * garbage. */
void shared_in_flight(vgpu_async *async, unsigned address, unsigned bytes);
void shared_landed(const vgpu_async *async);

/* The range is being read until shared_release(): nobody may write it. */
void shared_hold(unsigned address, unsigned bytes);
void shared_release(unsigned address, unsigned bytes);

/* fence.proxy.async: the copy engine and the tensor cores then see what the lane wrote. */
void shared_fence(vgpu_lane *lane);

/* A cp.async landed there, and arrives at an mbarrier. */
void shared_announced(unsigned address, unsigned bytes);

/* Finite in both 16-bit types: some kernels repair what is not finite. */
void fill_garbage(void *memory, size_t bytes);

/* Where shared memory of the blocks of a cluster begins: no more aligned than a kernel asks
 * for, a multiple of 128 bytes and rarely of more. */
unsigned shared_draw_base(const vgpu_entry_point *entry);
void shared_make(vgpu_block *block, const vgpu_entry_point *entry, unsigned dynamic_bytes);

/* A block ends: nothing may be reading its memory. */
void shared_block_ended(const vgpu_block *block);
void shared_free(vgpu_block *block);

#endif
