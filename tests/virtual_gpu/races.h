/* races.h: whether earlier accesses to what a lane touches are ordered before it, by the rules
 * of the programming model and not just in this run.
 *
 * Every lane has a clock: what it knows about the lanes of its block, and of other blocks.
 * Where lanes synchronise, this knowledge is passed on. A place of shared or global memory
 * records its last writer and the readers since, with their times; an access that does not know
 * about these is a race, whatever happened in this schedule.
 *
 * Everything is off with ATTEST_VIRTUAL_RACES=0. */
#ifndef ATT_VGPU_RACES_H
#define ATT_VGPU_RACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vgpu_lane;
struct vgpu_block;
struct vgpu_warp;

/* What somebody knew at some time. Immutable, reference-counted. */
typedef struct races_clock races_clock;

typedef struct races_lane {
    races_clock *knows;
    const struct races_times *own; /* in it: of the lanes of its block */
    uint32_t time;                 /* its own; advances whenever it publishes its knowledge */
    races_clock *fenced;           /* at its last __threadfence(); NULL: none */
    races_clock *seen; /* from atomics since: known from the next __threadfence() on */
    const char *file;  /* lane->at, when `place` was looked up */
    int line;
    uint16_t place;
} races_lane;

typedef struct races_block {
    struct races_memory *shared; /* what is known of its shared memory */
} races_block;

/* Where lanes leave their knowledge and others take it: a barrier, a phase of an mbarrier.
 * Initially zero. */
typedef struct races_place {
    races_clock *gathering, *ready;
    races_clock *last; /* that was gathered: most lanes know the same */
} races_place;

bool races_on(void);

void races_block_begin(struct vgpu_block *block); /* lanes and shared memory are there */
void races_block_end(struct vgpu_block *block);

/* What the lane knows, without what it does from now on. NULL if races are not checked. */
races_clock *races_now(struct vgpu_lane *lane);
races_clock *races_share(races_clock *clock); /* one more reference */
void races_drop(races_clock *clock);          /* or NULL */

/* All these lanes then know what each of them knew. */
void races_meet(struct vgpu_warp *warp, unsigned mask);

/* A waiting lane must take what is ready before the place is flipped again. */
void races_leave(races_place *place, struct vgpu_lane *lane);
void races_leave_clock(races_place *place, const races_clock *clock); /* or NULL */
void races_flip(
    races_place *place); /* what was gathered is ready to be taken; gathering starts over */
void races_take(const races_place *place, struct vgpu_lane *lane);
void races_take_clock(const races_clock *clock, struct vgpu_lane *lane); /* or NULL */
void races_forget(races_place *place);                                   /* free */

/* Atomics do not race with atomics. */
typedef enum races_access { RACES_READ, RACES_WRITE, RACES_ATOMIC } races_access;

/* An access to shared memory of `block`, at `offset` from block->memory and within. `what`
 * names the instruction. */
void races_shared(struct vgpu_lane *lane, struct vgpu_block *block, unsigned offset,
                  unsigned bytes, races_access access, const char *what);

/* An access to global memory, which is within an allocation. */
void races_global(struct vgpu_lane *lane, const void *memory, size_t bytes, races_access access,
                  const char *what);

/* A write (or a reduction: RACES_ATOMIC) by the copy engine: nobody may touch it before
 * races_global_landed() by the lane that waited for it, or the end of the launch. */
void races_global_async(struct vgpu_lane *lane, const void *memory, size_t bytes,
                        races_access access, const char *what);
void races_global_landed(struct vgpu_lane *lane, const void *memory, size_t bytes);

/* __threadfence(), and what atomics publish: what comes before a fence is known to a lane that
 * reads the atomic and then executes a fence. races_shared() and races_global() check whether
 * the atomic itself races. `order`: bits; acquire and release for PTX that has them; a load
 * publishes nothing, a store learns nothing and discards what the place published before. */
enum {
    RACES_RELAXED = 0,
    RACES_ACQUIRE = 1,
    RACES_RELEASE = 2,
    RACES_LOAD = 4,
    RACES_STORE = 8
};
void races_fence(struct vgpu_lane *lane);
void races_atomic(struct vgpu_lane *lane, const void *memory, size_t bytes, int order);

/* Discard what atomics published in this range of global memory, or in the shared memory of the
 * block. */
void races_atomics_forget(const void *memory, size_t bytes);
void races_atomics_end(const struct vgpu_block *block);

/* griddepcontrol.wait, or the start of a launch: everything before `launch` is known. */
void races_launches_known(struct vgpu_lane *lane, long launch);

#endif
