/* async.h: what happens by itself, some time between its start and the wait that asks for it. */
#ifndef ATT_VGPU_ASYNC_H
#define ATT_VGPU_ASYNC_H

#include "tests/virtual_gpu/machine.h"

/* First member of a struct of the instruction's own, from malloc(); freed by what frees it below. */
typedef struct vgpu_async {
    void (*land)(struct vgpu_async *async); /* what happens; called once, with no lane running */
    vgpu_lane *by;
    vgpu_block *block; /* that it was started by: it does not outlive it */
    vgpu_place started;
    long group;
    bool done;
    bool detached;            /* freed when it has landed: nobody waits for it by name */
    size_t at;                /* among those pending */
    struct vgpu_async *next;  /* of the lane */
    vgpu_range writes, reads; /* shared memory; 0 bytes: none */
} vgpu_async;

/* Started by the lane that runs; it may land from now on. `bytes` of its struct are taken over as they are. */
vgpu_async *async_start(const vgpu_async *async, size_t bytes);

/* Let it land now, if it has not. */
void async_finish(vgpu_async *async);

/* Copies of a lane's list that belong to groups before `group` land and are freed. */
void async_finish_groups(vgpu_async **list, long group);

/* One of those pending lands, any. False: none is pending. */
bool async_land_any(void);
bool async_any_pending(void);
void async_drop_all(void); /* after a failure */

#endif
