/* barriers_ptx.c: instructions for barriers in shared memory, numbered ones and that of the
 * cluster; fences of the copy engine. */
#include "tests/virtual_gpu/barrier.h"
#include "tests/virtual_gpu/ptx.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"
#include "tests/virtual_gpu/shared_memory.h"
#include "tests/virtual_gpu/warp.h"

/* ---- in shared memory ---- */

/* The index of the address word: after the state, if one is requested. */
static int address_word(const ptx_frame *f) {
    for (int i = 0; i < f->instruction->count; i++)
        if (f->instruction->words[i].in_brackets)
            return i;
    ptx_fail_operand(f, 0);
}

static void init(ptx_frame *f) {
    mbarrier_init(f->lane, (unsigned)ptx_get(f, 0), (int)ptx_get(f, 1));
}

static void inval(ptx_frame *f) {
    mbarrier_inval(f->lane, (unsigned)ptx_get(f, 0));
}

/* The state that an arrival returns is the parity of its phase. */
static void set_state(ptx_frame *f, int address) {
    if (address > 0 && f->instruction->words[0].kind != PTX_SINK)
        ptx_set(f, 0, mbarrier_is_over((unsigned)ptx_get(f, address), 0));
}

static void arrive(ptx_frame *f) {
    const int at = address_word(f);
    const int arrivals = f->instruction->count > at + 1 ? (int)ptx_get(f, at + 1) : 1;
    set_state(f, at);
    mbarrier_arrive(f->lane, (unsigned)ptx_get(f, at), arrivals, 0);
    lane_yield(f->lane);
}

static void arrive_expect(ptx_frame *f) {
    const int at = address_word(f);
    if (f->instruction->count != at + 2)
        ptx_fail_operand(f, at);
    set_state(f, at);
    mbarrier_arrive(f->lane, (unsigned)ptx_get(f, at), 1,
                    (long long)(uint32_t)ptx_get(f, at + 1));
    lane_yield(f->lane);
}

static void expect(ptx_frame *f) {
    mbarrier_expect((unsigned)ptx_get(f, 0), (long long)(uint32_t)ptx_get(f, 1));
    lane_may_yield(f->lane);
}

/* p, [barrier], parity or state (, time). `option` says whether it may wait or must answer at
 * once. */
static void wait(ptx_frame *f) {
    enum { GIVES_UP = 16 }; /* one in so many that wait */
    const unsigned barrier = (unsigned)ptx_get(f, 1);
    const int parity = (int)ptx_get(f, 2) & 1;
    if (barrier >> SHARED_WINDOW_BITS != (unsigned)f->lane->block->rank)
        vgpu_fail(CHECK_BOUNDS, "%s at the mbarrier of another block", f->instruction->name);
    const bool waits = f->instruction->option && random_below(GIVES_UP) != 0;
    if (!waits && !mbarrier_is_over(barrier, parity)) {
        ptx_set(f, 0, 0);
        lane_yield(f->lane);
        return;
    }
    mbarrier_wait(f->lane, barrier, parity);
    ptx_set(f, 0, 1);
}

/* ---- by number, of the cluster, of the warp ---- */

static void numbered(ptx_frame *f) {
    const int id = (int)ptx_get(f, 0),
              threads = f->instruction->count > 1 ? (int)ptx_get(f, 1) : 0;
    if (id < 0 || id >= NAMED_BARRIERS)
        vgpu_fail(CHECK_BOUNDS, "%s: there is no barrier %d", f->instruction->name, id);
    if (threads < 0 || threads % WARP_LANES != 0)
        vgpu_fail(CHECK_COUNT, "%s: %d threads are not whole warps", f->instruction->name,
                  threads);
    barrier_arrive(f->lane, id, threads, f->instruction->option);
}

static void arrive_at_cluster(ptx_frame *f) {
    enum { RELAXED = 2 };
    cluster_arrive(f->lane, f->instruction->choice[0] != RELAXED);
}

static void wait_for_cluster(ptx_frame *f) {
    cluster_wait(f->lane, true);
}

static void meet(vgpu_warp *warp) {
    races_meet(warp, warp->mask);
}

static void sync_warp(ptx_frame *f) {
    warp_meet(f->lane, (unsigned)ptx_get(f, 0), f->instruction, WARP_ASM, meet);
}

/* ---- fences ---- */

static void fence_barriers(ptx_frame *f) {
    races_drop(f->lane->made_barriers);
    f->lane->made_barriers = races_now(f->lane);
}

static void fence_proxy(ptx_frame *f) {
    shared_fence(f->lane);
}

static void nothing(ptx_frame *f) {
    (void)f;
}

#define OWN    "(|.shared|.shared::cta)"
#define ANY    "(|.shared|.shared::cta|.shared::cluster)"
#define ORDERS "(|.release.cta|.release.cluster|.relaxed.cta|.relaxed.cluster)"
#define WAITS  "(|.acquire.cta|.acquire.cluster|.relaxed.cta|.relaxed.cluster)"

const ptx_row ptx_barriers[] = {
    {"mbarrier.init" OWN ".b64", init, 0, 2, 2},
    {"mbarrier.inval" OWN ".b64", inval, 0, 1, 1},
    {"mbarrier.arrive" ORDERS ANY ".b64", arrive, 0, 1, 3},
    {"mbarrier.arrive.expect_tx" ORDERS ANY ".b64", arrive_expect, 0, 2, 3},
    {"mbarrier.expect_tx(|.relaxed.cta|.relaxed.cluster)" ANY ".b64", expect, 0, 2, 2},
    {"mbarrier.try_wait(|.parity)" WAITS OWN ".b64", wait, 1, 3, 4},
    {"mbarrier.test_wait(|.parity)" WAITS OWN ".b64", wait, 0, 3, 3},
    {"bar(|.cta).sync", numbered, 1, 1, 2},
    {"bar(|.cta).arrive", numbered, 0, 2, 2},
    {"barrier(|.cta).sync(|.aligned)", numbered, 1, 1, 2},
    {"barrier(|.cta).arrive(|.aligned)", numbered, 0, 2, 2},
    {"bar.warp.sync", sync_warp, 0, 1, 1},
    {"barrier.cluster.arrive(|.release|.relaxed)(|.aligned)", arrive_at_cluster, 0, 0, 0},
    {"barrier.cluster.wait(|.acquire)(|.aligned)", wait_for_cluster, 0, 0, 0},
    {"fence.proxy.async(|.shared::cta|.shared::cluster)", fence_proxy, 0, 0, 0},
    {"fence.proxy.async.global", nothing, 0, 0, 0},
    {"fence.mbarrier_init.release.cluster", fence_barriers, 0, 0, 0},
    {0},
};
