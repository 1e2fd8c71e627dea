/* lanes.h: the structure of a launch: grids, clusters, blocks, warps and lanes. Everything runs
 * in one host thread; every lane is a fiber. */
#ifndef ATT_VGPU_LANES_H
#define ATT_VGPU_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/virtual_gpu/abi.h"
#include "tests/virtual_gpu/fiber.h"
#include "tests/virtual_gpu/races.h"

enum { WARP_LANES = 32, BLOCK_LANES_MAX = 1024, CLUSTER_MAX = 16, NAMED_BARRIERS = 16 };

typedef struct vgpu_lane vgpu_lane;
typedef struct vgpu_warp vgpu_warp;
typedef struct vgpu_block vgpu_block;
typedef struct vgpu_cluster vgpu_cluster;
typedef struct vgpu_grid vgpu_grid;

typedef struct vgpu_place { /* in a source */
    const char *file;
    int line;
} vgpu_place;

typedef enum vgpu_state {
    LANE_RUNS,
    LANE_IN_WARP, /* in an operation of its warp, waiting for the others */
    LANE_AT_MBARRIER,
    LANE_AT_BARRIER,  /* a numbered one, of the block */
    LANE_AT_CLUSTER,  /* the barrier of the cluster */
    LANE_AT_PREVIOUS, /* waiting for the previous kernel */
    LANE_SLEEPS,      /* nanosleep: it polls memory that others write */
    LANE_ENDED
} vgpu_state;

/* Of shared memory. */
typedef struct vgpu_range {
    unsigned address, bytes;
} vgpu_range;

struct vgpu_async; /* async.h */

struct vgpu_lane {
    vgpu_thread is; /* first: vgpu_self points here */
    vgpu_warp *warp;
    vgpu_block *block;
    int index;  /* in the warp */
    int number; /* in the block */
    vgpu_fiber fiber;
    vgpu_state state;
    int slot;           /* index among the warp's running lanes */
    long resumed;       /* how often */
    long slept;         /* `resumed` when it last slept; 0: it never did */
    vgpu_place at;      /* its last call of the virtual GPU */
    const void *code;   /* its last access of C code, if that came later; NULL: it did not */
    unsigned waits_for; /* address of an mbarrier, number of a barrier */
    int parity;
    /* In an operation of the warp: */
    uint64_t value, result;
    int other;
    void *frame; /* ptx_frame */
    /* Copies in flight, newest first, and the number of the open group: */
    struct vgpu_async *copies; /* cp.async */
    long copy_group;
    struct vgpu_async *stores; /* bulk: TMA stores and reductions */
    long store_group;
    uint16_t fences;   /* number of fence.proxy.async it has executed, modulo 65536 */
    uint16_t landings; /* the block's count of them at its last fence.proxy.async */
    int cluster_phase; /* that it has arrived in */
    races_clock
        *made_barriers; /* at its last fence.mbarrier_init: a relaxed arrival at the cluster's
                         * barrier publishes up to this */
    races_lane races;
};

struct vgpu_warp {
    vgpu_block *block;
    int index;
    vgpu_lane *lanes[WARP_LANES];
    int count;
    vgpu_lane *runs[WARP_LANES];
    int runs_count;
    long slowest;          /* no runnable lane was resumed less often */
    unsigned live;         /* lanes that have not ended */
    unsigned arrived;      /* in the warp's current operation; 0: none */
    unsigned mask;         /* that it is for */
    const void *operation; /* which one: an asm statement, or a place in the source */
    int what;
    double priority;
    struct wgmma_warp *wgmma; /* products in flight; owned by wgmma.c */
};

typedef struct vgpu_barrier { /* bar.sync, by number */
    int arrived, expected;
    vgpu_lane **waiting;
    int waiting_count;
    races_place races;
} vgpu_barrier;

typedef struct vgpu_mbarrier {
    unsigned address;
    int expected, pending;
    long long bytes; /* still to come */
    unsigned phase;
    races_place races;
    struct vgpu_mbarrier *next;
} vgpu_mbarrier;

/* State of every 4 bytes of shared memory. */
typedef struct vgpu_cell {
    uint8_t in_flight; /* copies that write it */
    uint8_t written;   /* bits: which of its bytes were written */
    uint16_t sources;  /* copies and products that read it */
    uint16_t writer;   /* number + 1 of the thread that wrote it last; 0: a copy did, or
                        * nothing; WRITER_LANDED */
    uint16_t
        fences; /* the writer's fence count then: after one more, copies and products see the
                 * write; WRITER_LANDED: the block's count of landings */
} vgpu_cell;

/* A cp.async whose thread did not wait for it wrote the cell, and an mbarrier told of it: who
 * reads it through the copy engine or the tensor cores must execute a fence in between. */
enum { WRITER_LANDED = UINT16_MAX };

struct vgpu_block {
    vgpu_dim3 id;
    long number; /* over all launches, from 1: races distinguish blocks by it */
    int rank;    /* in the cluster */
    vgpu_cluster *cluster;
    vgpu_warp *warps;
    vgpu_lane *lanes;
    int warps_count, lanes_count, live;
    bool allows_next; /* a thread called griddepcontrol.launch_dependents, or all have ended */
    /* Shared memory: `bytes` at `memory`, addressed from `base` on: first the static part, then
     * the dynamic part. */
    char *memory, *allocation;
    unsigned base, bytes, dynamic_at;
    vgpu_cell *cells;
    uint16_t landings; /* arrivals of cp.async at mbarriers, modulo 65536 */
    vgpu_barrier barriers[NAMED_BARRIERS];
    vgpu_mbarrier *mbarriers;
    races_block races;
};

struct vgpu_cluster {
    vgpu_grid *grid;
    vgpu_block *blocks;
    int count, live;      /* blocks */
    unsigned shared_base; /* address at which shared memory begins, in every block */
    int arrived;          /* threads, at the barrier of the cluster */
    int phase;
    races_place races;
    vgpu_cluster *next; /* of those resident */
};

struct vgpu_grid {
    const vgpu_entry_point *entry;
    void *params; /* at a multiple of 64 bytes, as required for a kernel's tensor maps */
    size_t params_bytes;
    char name[128];
    long number; /* of the launch, from 1 */
    long known;  /* launches before this one have ended when it starts */
    vgpu_dim3 size, threads;
    unsigned dynamic_bytes, cluster;
    unsigned *order; /* clusters, in the order in which they start */
    unsigned clusters, started, ended;
    unsigned allowing; /* blocks that let the next kernel start */
    bool programmatic;
    vgpu_grid *next; /* in the queue */
};

/* The lane that runs; NULL: the scheduler does. */
static inline vgpu_lane *vgpu_lane_now(void) {
    return (vgpu_lane *)(void *)vgpu_self;
}

/* Record the lane's position for reports. */
static inline vgpu_lane *vgpu_lane_at(const char *file, int line) {
    vgpu_lane *lane = vgpu_lane_now();
    lane->at = (vgpu_place){file, line};
    lane->code = NULL;
    return lane;
}

#endif
