/* async.h: what happens by itself, some time between its start and the wait that asks for it. */
#ifndef ATT_VGPU_ASYNC_H
#define ATT_VGPU_ASYNC_H

#include "tests/virtual_gpu/lanes.h"

/* First member of a struct of the instruction's own. */
typedef struct vgpu_async {
    void (*land)(
        struct vgpu_async *async); /* what happens; called once, with no lane running */
    vgpu_lane *by;
    vgpu_block *
        block; /* that it was started by; its lanes may have ended when a store lands, it stays till then */
    vgpu_place started;
    long group;
    bool done;
    bool detached;           /* freed when it has landed: nobody waits for it by name */
    size_t at;               /* among those pending */
    struct vgpu_async *next; /* of the lane */
    vgpu_range writes;       /* shared memory in flight; 0 bytes: none */
} vgpu_async;

/* Started by the lane that runs; it may land from now on. `async` is the start of a struct of `bytes`, which is copied. */
vgpu_async *async_start(const vgpu_async *async, size_t bytes);

/* Let it land now, if it has not; from a lane, which goes on behind it. */
void async_finish(vgpu_async *async);

/* Copies of a lane's list that belong to groups before `group` land and are freed. */
void async_finish_groups(vgpu_async **list, long group);

/* How many have not landed, and let one of them land. */
unsigned async_pending(void);
void async_land(unsigned which);

/* A block ends: none of its copies into shared memory may be under way. */
void async_block_ended(const vgpu_block *block);

/* Is something under way that a block of the cluster started? */
bool async_serves(const vgpu_cluster *cluster);
void async_free_list(vgpu_async **list);
void async_drop_all(void); /* after a failure */

#endif
