/* async.h: asynchronous events, which happen at some time between their start and the wait for
 * them. */
#ifndef ATT_VGPU_ASYNC_H
#define ATT_VGPU_ASYNC_H

#include "tests/virtual_gpu/lanes.h"

/* First member of the instruction's own struct. */
typedef struct vgpu_async {
    void (*land)(struct vgpu_async *async); /* the effect; called once, with no lane running */
    vgpu_lane *by;
    vgpu_block
        *block; /* that started it; its lanes may have ended when a store lands, but the block
                 * stays until then */
    vgpu_place started;
    long group;
    bool done;
    bool detached;           /* freed when it has landed: nothing waits for it by name */
    size_t at;               /* index among the pending ones */
    struct vgpu_async *next; /* of the lane */
    vgpu_range writes;       /* shared memory in flight; 0 bytes: none */
} vgpu_async;

/* Start an event from the running lane; it may land from now on. `async` is the start of a
 * struct of `bytes`, which is copied. */
vgpu_async *async_start(const vgpu_async *async, size_t bytes);

/* Make it land now, if it has not; from a lane, which then continues. */
void async_finish(vgpu_async *async);

/* Make copies of a lane's list that belong to groups before `group` land, and free them. */
void async_finish_groups(vgpu_async **list, long group);

/* The number of pending events; make one of them land. */
unsigned async_pending(void);
void async_land(unsigned which);

/* A block ends: none of its copies into shared memory may be in flight. */
void async_block_ended(const vgpu_block *block);

/* Whether something started by a block of the cluster is in flight. */
bool async_serves(const vgpu_cluster *cluster);
void async_free_list(vgpu_async **list);
void async_drop_all(void); /* after a failure */

#endif
