/* races.h: did what a lane touches happen before, by the rules of the programming model and not just this time?
 *
 * Every lane has a clock of what it knows of the lanes of its block, and snapshots of what it knows of other blocks'. Where lanes meet,
 * what they know goes from one to the other. A place of shared or global memory remembers who wrote it last and who has read it
 * since, and when; an access that does not know of these is a race, whatever this schedule made of it.
 *
 * All of it is nothing where ATTEST_VIRTUAL_RACES=0. */
#ifndef ATT_VGPU_RACES_H
#define ATT_VGPU_RACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vgpu_lane;
struct vgpu_block;
struct vgpu_grid;
struct vgpu_warp;

/* What somebody knew at some time. Immutable, references counted. */
typedef struct races_clock races_clock;

typedef struct races_lane {
    uint32_t *own;               /* [lanes of the block] */
    struct races_others *others; /* snapshots of other blocks; NULL: none */
    races_clock *fenced;         /* at its last __threadfence(); NULL: none */
    races_clock *seen;           /* by atomics since: known from the next __threadfence() on */
    long launches;               /* all launches up to this one are known */
} races_lane;

typedef struct races_block {
    uint32_t *clocks;          /* of all lanes, in one piece */
    struct races_cell *shared; /* of each 2 bytes of shared memory */
} races_block;

/* Where lanes leave what they know and others take it: a barrier, a phase of an mbarrier, an atomic. */
typedef struct races_place {
    races_clock *gathering, *ready;
} races_place;

bool races_on(void);

void races_block_begin(struct vgpu_block *block); /* lanes and shared memory are there */
void races_block_end(struct vgpu_block *block);

/* What the lane knows; what it does from now on is not part of it. NULL where races are not looked for. */
races_clock *races_now(struct vgpu_lane *lane);
races_clock *races_share(races_clock *clock); /* one more reference */
void races_drop(races_clock *clock);          /* or NULL */

/* All these lanes know what each of them knew. */
void races_meet(struct vgpu_warp *warp, unsigned mask);

void races_leave(races_place *place, struct vgpu_lane *lane);
void races_leave_clock(races_place *place, const races_clock *clock);
void races_flip(
    races_place *place); /* what was gathered is ready to be taken; gathering begins anew */
void races_take(const races_place *place, struct vgpu_lane *lane);
void races_take_clock(const races_clock *clock, struct vgpu_lane *lane);
void races_forget(races_place *place); /* free */

/* An access to shared memory of `block`, at `offset` from block->memory. `what` names the instruction. */
void races_shared(struct vgpu_lane *lane, struct vgpu_block *block, unsigned offset,
                  unsigned bytes, bool write, const char *what);

/* An access to global memory that is known to be within an allocation. */
void races_global(struct vgpu_lane *lane, const void *memory, size_t bytes, bool write,
                  const char *what);

/* A write to global memory by the copy engine: nobody may touch it before races_global_landed() by the lane that waited for it. */
void races_global_async(struct vgpu_lane *lane, const void *memory, size_t bytes,
                        const char *what);
void races_global_landed(struct vgpu_lane *lane, const void *memory, size_t bytes);

/* __threadfence(), and atomics: what lies before a fence is known to who reads the atomic and then has a fence. `order`: bit 0
 * acquire, bit 1 release, for PTX that says so. */
enum { RACES_RELAXED = 0, RACES_ACQUIRE = 1, RACES_RELEASE = 2 };
void races_fence(struct vgpu_lane *lane);
void races_atomic(struct vgpu_lane *lane, const void *memory, size_t bytes, int order);

/* griddepcontrol.wait, or the start of a launch: everything before `launch` is known. */
void races_launches_known(struct vgpu_lane *lane, long launch);

#endif
