/* store_async.c: st.async: a few words to the shared memory of a block of the cluster, which
 * arrive later and signal an mbarrier there. */
#include "tests/virtual_gpu/async.h"
#include "tests/virtual_gpu/barrier.h"
#include "tests/virtual_gpu/ptx.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"
#include "tests/virtual_gpu/shared_memory.h"

enum { WORDS_MAX = 4 };

typedef struct remote_store {
    vgpu_async async;
    uint64_t words[WORDS_MAX];
    int count;
    unsigned word_bytes, to, barrier;
    races_clock *clock; /* of the lane when it started */
} remote_store;

static void land(vgpu_async *async) {
    remote_store *store = (remote_store *)async;
    const unsigned bytes = store->word_bytes * (unsigned)store->count;
    if (shared_block(store->to)->live == 0)
        vgpu_fail(CHECK_LIFETIME, "st.async of %s:%d arrives at a block that has ended",
                  async->started.file, async->started.line);
    char *place = shared_at(store->to, bytes, bytes, "st.async");
    for (int i = 0; i < store->count; i++)
        memcpy(place + store->word_bytes * (unsigned)i, &store->words[i], store->word_bytes);
    mbarrier_complete(store->barrier, bytes, store->clock);
    races_drop(store->clock);
}

/* [to], words, [barrier]. Groups: vector, type. */
static void st_async(ptx_frame *f) {
    const int count = 1 << f->instruction->choice[0];
    if (f->instruction->count != count + 2)
        ptx_fail_operand(f, 0);
    remote_store store = {.async = {.land = land, .detached = true},
                          .count = count,
                          .word_bytes = f->instruction->choice[1] < 4 ? 4 : 8,
                          .to = (unsigned)ptx_get(f, 0),
                          .barrier = (unsigned)ptx_get(f, 1 + count)};
    for (int i = 0; i < count; i++)
        store.words[i] = ptx_get(f, 1 + i);
    const unsigned bytes = store.word_bytes * (unsigned)count;
    if (store.to >> SHARED_WINDOW_BITS != store.barrier >> SHARED_WINDOW_BITS)
        vgpu_fail(CHECK_BOUNDS,
                  "st.async: data (0x%x) and mbarrier (0x%x) lie in different blocks", store.to,
                  store.barrier);
    if (shared_block(store.to)->live == 0)
        vgpu_fail(CHECK_LIFETIME, "st.async to a block that has ended");
    shared_at(store.to, bytes, bytes, f->instruction->name);
    mbarrier_used(f->lane, store.barrier, false);
    remote_store *started = (remote_store *)async_start(&store.async, sizeof store);
    shared_in_flight(&started->async, store.to, bytes);
    started->clock = races_now(f->lane);
    lane_may_yield(f->lane);
}

const ptx_row ptx_store_async[] = {
    {"st.async.shared::cluster.mbarrier::complete_tx::bytes(|.v2|.v4)(.b32|.u32|.s32|.f32|.b64|"
     ".u64|.s64|.f64)",
     st_async, 0, 3, 6},
    {0},
};
