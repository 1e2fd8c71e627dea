/* atomics.c: atomic instructions and functions, and fences between threads. */
#include "tests/virtual_gpu/memory_place.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"

/* Groups of atom and red: order, scope, space, operation, type. */
#define ORDERS     "(|.relaxed|.acquire|.release|.acq_rel)"
#define SCOPES     "(|.cta|.cluster|.gpu|.sys)"
#define OPERATIONS "(.add|.or|.and|.xor|.min|.max|.exch|.inc|.dec|.cas)"
#define TYPES                                                                                  \
    "(.b32|.u32|.s32|.b64|.u64|.s64|.f32|.f64|.noftz.f16x2|.noftz.bf16x2|.noftz.f16|.noftz."   \
    "bf16)"
enum { ORDER_OF, SCOPE_OF, SPACE_OF, OPERATION_OF, TYPE_OF };
typedef enum operation { ADD, OR, AND, XOR, MIN, MAX, EXCH, INC, DEC, CAS } operation;
typedef enum type { B32, U32, S32, B64, U64, S64, F32, F64, F16X2, BF16X2, F16, BF16 } type;

static unsigned bytes_of(type t) {
    static const uint8_t bytes[] = {4, 4, 4, 8, 8, 8, 4, 8, 4, 4, 2, 2};
    return bytes[t];
}

static int64_t signed_of(uint64_t bits, type t) {
    return bytes_of(t) == 4 ? (int64_t)(int32_t)bits : (int64_t)bits;
}

static bool is_less(uint64_t x, uint64_t y, type t) {
    return t == S32 || t == S64 ? signed_of(x, t) < signed_of(y, t) : x < y;
}

static double double_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t add(uint64_t x, uint64_t y, type t) {
    uint64_t out = 0;
    switch (t) {
    case F32:
        return att_f32_bits(att_bits_f32((uint32_t)x) + att_bits_f32((uint32_t)y));
    case F64: {
        const double sum = double_of(x) + double_of(y);
        memcpy(&out, &sum, sizeof out);
        return out;
    }
    case F16X2:
    case BF16X2:
    case F16:
    case BF16:
        for (unsigned i = 0; i < 8 * bytes_of(t); i += 16) {
            const bool is_bf16 = t == BF16X2 || t == BF16;
            const float sum = small_to_float((uint16_t)(x >> i), is_bf16) +
                              small_to_float((uint16_t)(y >> i), is_bf16);
            out |= (uint64_t)small_from_float(sum, is_bf16) << i;
        }
        return out;
    default:
        return x + y;
    }
}

static uint64_t changed(operation o, type t, uint64_t old, uint64_t value, uint64_t compare) {
    switch (o) {
    case ADD:
        return add(old, value, t);
    case OR:
        return old | value;
    case AND:
        return old & value;
    case XOR:
        return old ^ value;
    case MIN:
        return is_less(value, old, t) ? value : old;
    case MAX:
        return is_less(old, value, t) ? value : old;
    case EXCH:
        return value;
    case INC:
        return old >= value ? 0 : old + 1;
    case DEC:
        return old == 0 || old > value ? value : old - 1;
    case CAS:
        return old == compare ? value : old;
    }
    return old;
}

static uint64_t change(const memory_place *place, operation o, type t, uint64_t value,
                       uint64_t compare) {
    const unsigned bytes = bytes_of(t);
    const uint64_t mask = bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * bytes) - 1;
    uint64_t old = 0;
    memcpy(&old, place->memory, bytes);
    const uint64_t now = changed(o, t, old, value & mask, compare & mask);
    memcpy(place->memory, &now, bytes);
    return old;
}

/* ---- instructions ---- */

static uint64_t run(ptx_frame *f, int address, uint64_t value, uint64_t compare) {
    static const int orders[] = {RACES_RELAXED, RACES_RELAXED, RACES_ACQUIRE, RACES_RELEASE,
                                 RACES_ACQUIRE | RACES_RELEASE};
    const ptx_instruction *in = f->instruction;
    const type t = (type)in->choice[TYPE_OF];
    lane_may_yield(f->lane);
    const memory_place place =
        memory_touch(f->lane, (memory_space)in->choice[SPACE_OF], ptx_get(f, address),
                     bytes_of(t), MEMORY_ATOMIC, in->name);
    if (!place.is_shared)
        races_atomic(f->lane, place.memory, bytes_of(t), orders[in->choice[ORDER_OF]]);
    return change(&place, (operation)in->choice[OPERATION_OF], t, value, compare);
}

static void red(ptx_frame *f) {
    run(f, 0, ptx_get(f, 1), 0);
    lane_may_yield(f->lane);
}

/* cas has the comparand before the new value. */
static void atom(ptx_frame *f) {
    const bool compares = f->instruction->choice[OPERATION_OF] == CAS;
    if (f->instruction->count != (compares ? 4 : 3))
        ptx_fail_operand(f, 0);
    ptx_set(f, 0, run(f, 1, ptx_get(f, compares ? 3 : 2), compares ? ptx_get(f, 2) : 0));
    lane_may_yield(f->lane);
}

static void fence(ptx_frame *f) {
    races_fence(f->lane);
    lane_may_yield(f->lane);
}

/* ---- functions of CUDA C ---- */

uint64_t vgpu_atomic(int what, void *address, int bytes, uint64_t value, uint64_t compare,
                     const char *file, int line) {
    static const operation operations[] = {ADD, ADD, OR, AND, MAX, MIN, EXCH, CAS};
    vgpu_lane *lane = vgpu_lane_at(file, line);
    const type t = what == VGPU_ATOMIC_ADD_FLOAT ? (bytes == 8 ? F64 : F32)
                   : bytes == 8                  ? U64
                                                 : U32;
    if (what < 0 || (size_t)what >= sizeof operations / sizeof *operations ||
        (bytes != 4 && bytes != 8))
        vgpu_fail(CHECK_INSTRUCTION, "an unknown atomic (%s:%d)", file, line);
    lane_may_yield(lane);
    const memory_place place = memory_touch(lane, SPACE_GENERIC, (uint64_t)(uintptr_t)address,
                                            (unsigned)bytes, MEMORY_ATOMIC, "an atomic");
    if (!place.is_shared)
        races_atomic(lane, place.memory, (size_t)bytes, RACES_RELAXED);
    const uint64_t old = change(&place, operations[what], t, value, compare);
    lane_may_yield(lane);
    return old;
}

void vgpu_threadfence(const char *file, int line) {
    vgpu_lane *lane = vgpu_lane_at(file, line);
    races_fence(lane);
    lane_may_yield(lane);
}

const ptx_row ptx_atomics[] = {
    {"red" ORDERS SCOPES MEMORY_SPACES OPERATIONS TYPES, red, 0, 2, 2},
    {"atom" ORDERS SCOPES MEMORY_SPACES OPERATIONS TYPES, atom, 0, 3, 4},
    {"fence(|.acq_rel|.sc)(.cta|.cluster|.gpu|.sys)", fence, 0, 0, 0},
    {"membar(.cta|.gl|.sys)", fence, 0, 0, 0},
    {0},
};
