/* memory.c: loads and stores. */
#include "tests/virtual_gpu/memory_place.h"
#include "tests/virtual_gpu/schedule.h"

/* Groups of ld and st, and their meaning. */
#define ORDERS  "(|.weak|.volatile|.relaxed|.acquire|.release)"
#define SCOPES  "(|.cta|.cluster|.gpu|.sys)"
#define CACHES  "(|.nc|.ca|.cg|.cs|.lu|.cv|.wb|.wt)"
#define VECTORS "(|.v2|.v4)"
#define TYPES   "(.b8|.u8|.s8|.b16|.u16|.s16|.b32|.u32|.s32|.f32|.b64|.u64|.s64|.f64)"
enum { ORDER_OF, SCOPE_OF, SPACE_OF, CACHE_OF, VECTOR_OF, TYPE_OF };
enum { ORDER_NONE, ORDER_WEAK, ORDER_VOLATILE, ORDER_RELAXED, ORDER_ACQUIRE, ORDER_RELEASE };
enum { TYPE_S8 = 2, TYPE_S16 = 5 };

static unsigned element_bytes(const ptx_instruction *in) {
    static const uint8_t bytes[] = {1, 1, 1, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8};
    return bytes[in->choice[TYPE_OF]];
}

static int elements(const ptx_instruction *in) {
    return 1 << in->choice[VECTOR_OF];
}

/* Others may see it when they run before or after it. Strong accesses do not race with each
 * other. */
static bool is_strong(const ptx_instruction *in) {
    return in->choice[ORDER_OF] >= ORDER_VOLATILE;
}

static memory_place touch(const ptx_frame *f, int word, bool write) {
    const ptx_instruction *in = f->instruction;
    const unsigned bytes = element_bytes(in) * (unsigned)elements(in);
    const memory_access strong = write ? MEMORY_ATOMIC : MEMORY_STRONG_READ,
                        weak = write ? MEMORY_WRITE : MEMORY_READ;
    const memory_access access = is_strong(in) ? strong : weak;
    return memory_touch(f->lane, (memory_space)in->choice[SPACE_OF], ptx_get(f, word), bytes,
                        access, in->name);
}

static void order(const ptx_frame *f, const memory_place *place) {
    const int named = f->instruction->choice[ORDER_OF];
    const int meant = named == ORDER_ACQUIRE   ? RACES_ACQUIRE
                      : named == ORDER_RELEASE ? RACES_RELEASE
                                               : RACES_RELAXED;
    if (is_strong(f->instruction) && !place->is_shared)
        races_atomic(f->lane, place->memory,
                     element_bytes(f->instruction) * (unsigned)elements(f->instruction), meant);
}

static uint64_t signed_bits(uint64_t bits, int type) {
    if (type == TYPE_S8)
        return (uint64_t)(int64_t)(int8_t)bits;
    return type == TYPE_S16 ? (uint64_t)(int64_t)(int16_t)bits : bits;
}

static void ld(ptx_frame *f) {
    const int count = elements(f->instruction);
    const unsigned bytes = element_bytes(f->instruction);
    if (f->instruction->count != count + 1)
        ptx_fail_operand(f, 0);
    if (is_strong(f->instruction))
        lane_may_yield(f->lane);
    const memory_place from = touch(f, count, false);
    order(f, &from);
    for (int i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, from.memory + bytes * (unsigned)i, bytes);
        ptx_set(f, i, signed_bits(bits, f->instruction->choice[TYPE_OF]));
    }
}

static void st(ptx_frame *f) {
    const int count = elements(f->instruction);
    const unsigned bytes = element_bytes(f->instruction);
    if (f->instruction->count != count + 1)
        ptx_fail_operand(f, 0);
    const memory_place to = touch(f, 0, true);
    order(f, &to);
    for (int i = 0; i < count; i++) {
        const uint64_t bits = ptx_get(f, i + 1);
        memcpy(to.memory + bytes * (unsigned)i, &bits, bytes);
    }
    lane_may_yield(f->lane);
}

static void nothing(ptx_frame *f) {
    (void)f;
}

const ptx_row ptx_memory[] = {
    {"ld" ORDERS SCOPES MEMORY_SPACES CACHES VECTORS TYPES, ld, 0, 2, 5},
    {"st" ORDERS SCOPES MEMORY_SPACES CACHES VECTORS TYPES, st, 0, 2, 5},
    {"prefetch(|.global|.local)(.L1|.L2)", nothing, 0, 1, 1},
    {"prefetch.global(.L2::evict_last|.L2::evict_normal)", nothing, 0, 1, 1},
    {"prefetchu.L1", nothing, 0, 1, 1},
    {0},
};
