/* integers.c: instructions on integers, bits, predicates and addresses. */
#include "tests/virtual_gpu/ptx.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/shared_memory.h"

/* ---- types, in the order of INTEGER ---- */

#define INTEGER "(.b16|.u16|.s16|.b32|.u32|.s32|.b64|.u64|.s64)"

static unsigned bits_in(int type) {
    return 16u << type / 3;
}

static bool is_signed(int type) {
    return type % 3 == 2;
}

/* The value as 64 bits: its upper bits are its sign, or zero. */
static uint64_t extend(uint64_t bits, int type) {
    const unsigned unused = 64 - bits_in(type);
    const uint64_t up = bits << unused;
    return is_signed(type) ? (uint64_t)((int64_t)up >> unused) : up >> unused;
}

static uint64_t truncate(uint64_t bits, int type) {
    const unsigned unused = 64 - bits_in(type);
    return bits << unused >> unused;
}

/* ---- moves ---- */

/* Join or split halves in braces. The groups: type. */
static void mov(ptx_frame *f) {
    if (f->instruction->count == 2) {
        ptx_set(f, 0, ptx_get(f, 1));
        return;
    }
    const unsigned half = (unsigned)f->instruction->option / 2;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    if (!f->instruction->words[0].in_braces) {
        ptx_set(f, 0, (ptx_get(f, 1) & mask) | (ptx_get(f, 2) & mask) << half);
        return;
    }
    const uint64_t whole = ptx_get(f, 2);
    ptx_set(f, 0, whole & mask);
    ptx_set(f, 1, whole >> half & mask);
}

/* Groups: to, from. */
static void convert(ptx_frame *f) {
    const int to = f->instruction->choice[0], from = f->instruction->choice[1];
    ptx_set(f, 0, truncate(extend(ptx_get(f, 1), from), to));
}

static void selp(ptx_frame *f) {
    ptx_set(f, 0, ptx_get(f, ptx_get(f, 3) ? 1 : 2));
}

/* ---- arithmetic ---- */

typedef enum operation {
    ADD,
    SUB,
    MUL,
    MUL_HIGH,
    AND,
    OR,
    XOR,
    SHL,
    SHR,
    MIN,
    MAX,
    DIV,
    REM,
    MAD
} operation;

static uint64_t shift(operation o, uint64_t x, uint64_t by, int type) {
    if (o == SHL)
        return by >= bits_in(type) ? 0 : x << by;
    if (is_signed(type))
        return (uint64_t)((int64_t)x >> (by >= bits_in(type) ? bits_in(type) - 1 : by));
    return by >= bits_in(type) ? 0 : x >> by;
}

static bool less(uint64_t x, uint64_t y, int type) {
    return is_signed(type) ? (int64_t)x < (int64_t)y : x < y;
}

static uint64_t divide(const ptx_frame *f, uint64_t x, uint64_t y, int type, bool remainder) {
    if (y == 0)
        vgpu_fail(CHECK_INSTRUCTION, "%s by zero", f->instruction->name);
    if (!is_signed(type))
        return remainder ? x % y : x / y;
    if ((int64_t)y == -1)
        return remainder ? 0 : 0 - x;
    return (uint64_t)(remainder ? (int64_t)x % (int64_t)y : (int64_t)x / (int64_t)y);
}

static uint64_t multiply_high(uint64_t x, uint64_t y, int type) {
    const uint64_t product = x * y; /* of 32 or 16 bits each: whole */
    return is_signed(type) ? (uint64_t)((int64_t)product >> bits_in(type))
                           : product >> bits_in(type);
}

static uint64_t combine(const ptx_frame *f, operation o, uint64_t x, uint64_t y, int type) {
    switch (o) {
    case ADD:
        return x + y;
    case SUB:
        return x - y;
    case MUL:
    case MAD:
        return x * y;
    case MUL_HIGH:
        return multiply_high(x, y, type);
    case AND:
        return x & y;
    case OR:
        return x | y;
    case XOR:
        return x ^ y;
    case SHL:
    case SHR:
        return shift(o, x, (uint32_t)ptx_get(f, 2), type);
    case MIN:
        return less(x, y, type) ? x : y;
    case MAX:
        return less(x, y, type) ? y : x;
    case DIV:
    case REM:
        return divide(f, x, y, type, o == REM);
    }
    return 0;
}

static void several(ptx_frame *f) {
    const operation o = (operation)f->instruction->option;
    const int type = f->instruction->choice[0];
    uint64_t out =
        combine(f, o, extend(ptx_get(f, 1), type), extend(ptx_get(f, 2), type), type);
    if (o == MAD)
        out += ptx_get(f, 3);
    ptx_set(f, 0, truncate(out, type));
}

/* mul.wide, mad.wide: the result has twice the bits. */
static void wide(ptx_frame *f) {
    const int type = f->instruction->choice[0];
    uint64_t out = extend(ptx_get(f, 1), type) * extend(ptx_get(f, 2), type);
    if (f->instruction->option == MAD)
        out += ptx_get(f, 3);
    ptx_set(f, 0, truncate(out, type + 3));
}

static void logic_of_predicates(ptx_frame *f) {
    const bool x = ptx_get(f, 1) != 0, y = ptx_get(f, 2) != 0;
    const operation o = (operation)f->instruction->option;
    ptx_set(f, 0, o == AND ? x && y : o == OR ? x || y : x != y);
}

typedef enum single { NOT, NEG, ABS, POPC, CLZ, BREV } single;

static uint64_t reverse(uint64_t x, unsigned bits) {
    uint64_t out = 0;
    for (unsigned i = 0; i < bits; i++)
        out |= (x >> i & 1) << (bits - 1 - i);
    return out;
}

static void one(ptx_frame *f) {
    const int type = f->instruction->choice[0];
    const uint64_t x = extend(ptx_get(f, 1), type), plain = truncate(x, type);
    uint64_t out = 0;
    switch ((single)f->instruction->option) {
    case NOT:
        out = ~x;
        break;
    case NEG:
        out = 0 - x;
        break;
    case ABS:
        out = (int64_t)x < 0 ? 0 - x : x;
        break;
    case POPC:
        out = (uint64_t)__builtin_popcountll(plain);
        break;
    case CLZ:
        out = plain ? (uint64_t)__builtin_clzll(plain) - (64 - bits_in(type)) : bits_in(type);
        break;
    case BREV:
        out = reverse(plain, bits_in(type));
        break;
    }
    ptx_set(f, 0, truncate(out, type));
}

static void not_predicate(ptx_frame *f) {
    ptx_set(f, 0, !ptx_get(f, 1));
}

/* ---- comparisons ---- */

enum { EQ, NE, LT, LE, GT, GE };

/* Groups: comparison, type. */
static void setp(ptx_frame *f) {
    const int type = f->instruction->choice[1];
    const uint64_t x = extend(ptx_get(f, 1), type), y = extend(ptx_get(f, 2), type);
    const bool is_less = less(x, y, type), is_more = less(y, x, type);
    const bool results[] = {x == y, x != y, is_less, !is_more, is_more, !is_less};
    ptx_set(f, 0, results[f->instruction->choice[0]]);
}

static void setp_float(ptx_frame *f) {
    const float x = ptx_get_float(f, 1), y = ptx_get_float(f, 2);
    const bool results[] = {x == y, x < y || x > y, x<y, x <= y, x> y, x >= y};
    ptx_set(f, 0, results[f->instruction->choice[0]]);
}

/* ---- bits ---- */

static uint64_t at_most_32(uint64_t x) {
    return x > 32 ? 32 : x;
}

/* `count` ones from bit `from` on. */
static void bmsk(ptx_frame *f) {
    const uint64_t from = at_most_32((uint32_t)ptx_get(f, 1)),
                   count = at_most_32((uint32_t)ptx_get(f, 2));
    ptx_set(f, 0, (uint32_t)(((UINT64_C(1) << count) - 1) << from));
}

static void bfe(ptx_frame *f) {
    const int type = f->instruction->choice[0] ? 5 : 4; /* .s32, .u32 */
    const unsigned from = (unsigned)ptx_get(f, 2) & 255,
                   count = (unsigned)at_most_32(ptx_get(f, 3) & 255);
    uint64_t x = extend(ptx_get(f, 1), type);
    x = from > 63 ? (is_signed(type) && (int64_t)x < 0 ? ~UINT64_C(0) : 0)
                  : (uint64_t)((int64_t)x >> from);
    const uint64_t field = x & ((UINT64_C(1) << count) - 1);
    const bool negative = is_signed(type) && count > 0 && (field >> (count - 1) & 1);
    ptx_set(f, 0, (uint32_t)(negative ? field | ~((UINT64_C(1) << count) - 1) : field));
}

static void bfi(ptx_frame *f) {
    const uint64_t from = at_most_32(ptx_get(f, 3) & 255),
                   count = at_most_32(ptx_get(f, 4) & 255);
    const uint64_t mask = ((UINT64_C(1) << count) - 1) << from;
    ptx_set(f, 0, (uint32_t)((ptx_get(f, 2) & ~mask) | (ptx_get(f, 1) << from & mask)));
}

static void lop3(ptx_frame *f) {
    const uint32_t a = (uint32_t)ptx_get(f, 1), b = (uint32_t)ptx_get(f, 2),
                   c = (uint32_t)ptx_get(f, 3);
    const unsigned table = (unsigned)ptx_get(f, 4);
    uint32_t out = 0;
    for (unsigned i = 0; i < 8; i++)
        if (table >> i & 1)
            out |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    ptx_set(f, 0, out);
}

static void prmt(ptx_frame *f) {
    const uint64_t both = (ptx_get(f, 2) & UINT32_MAX) << 32 | (ptx_get(f, 1) & UINT32_MAX);
    const unsigned select = (unsigned)ptx_get(f, 3);
    uint32_t out = 0;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned which = select >> 4 * i & 15;
        uint32_t byte = (uint32_t)(both >> 8 * (which & 7)) & 255;
        if (which & 8)
            byte = byte & 128 ? 255 : 0;
        out |= byte << 8 * i;
    }
    ptx_set(f, 0, out);
}

/* Groups: direction, mode. */
static void shf(ptx_frame *f) {
    const uint64_t both = (ptx_get(f, 2) & UINT32_MAX) << 32 | (ptx_get(f, 1) & UINT32_MAX);
    const uint64_t by =
        f->instruction->choice[1] ? ptx_get(f, 3) & 31 : at_most_32((uint32_t)ptx_get(f, 3));
    ptx_set(f, 0, (uint32_t)(f->instruction->choice[0] ? both >> by : both << by >> 32));
}

/* ---- addresses ---- */

unsigned ptx_map_address(const ptx_frame *frame, unsigned address, unsigned rank) {
    const vgpu_cluster *cluster = frame->lane->block->cluster;
    const unsigned mask = (1u << SHARED_WINDOW_BITS) - 1;
    if (rank >= (unsigned)cluster->count)
        vgpu_fail(CHECK_BOUNDS, "%s: the cluster has no block %u", frame->instruction->name,
                  rank);
    const unsigned offset = (address - shared_block(address)->base) & mask;
    return rank << SHARED_WINDOW_BITS | ((cluster->blocks[rank].base + offset) & mask);
}

static void mapa(ptx_frame *f) {
    ptx_set(f, 0, ptx_map_address(f, (unsigned)ptx_get(f, 1), (unsigned)ptx_get(f, 2)));
}

static void from_shared(ptx_frame *f) {
    ptx_set(f, 0, (uint64_t)(uintptr_t)vgpu_from_shared((unsigned)ptx_get(f, 1)));
}

static void to_shared(ptx_frame *f) {
    ptx_set(f, 0, vgpu_to_shared(ptx_pointer(ptx_get(f, 1))));
}

/* A cache policy is any number. */
static void createpolicy(ptx_frame *f) {
    ptx_set(f, 0, 1);
}

#define COMPARISON "(.eq|.ne|.lt|.le|.gt|.ge)"

const ptx_row ptx_integers[] = {
    {"mov(.b16|.u16|.s16|.f16|.f32|.u32|.s32|.u64|.s64|.f64|.pred)", mov, 0, 2, 2},
    {"mov.b32", mov, 32, 2, 3},
    {"mov.b64", mov, 64, 2, 3},
    {"cvt" INTEGER INTEGER, convert, 0, 2, 2},
    {"selp(.b16|.u16|.s16|.b32|.u32|.s32|.b64|.u64|.s64|.f32)", selp, 0, 4, 4},
    {"add" INTEGER, several, ADD, 3, 3},
    {"sub" INTEGER, several, SUB, 3, 3},
    {"mul.lo" INTEGER, several, MUL, 3, 3},
    {"mul.hi(.b16|.u16|.s16|.b32|.u32|.s32)", several, MUL_HIGH, 3, 3},
    {"mad.lo" INTEGER, several, MAD, 4, 4},
    {"mul.wide(.b16|.u16|.s16|.b32|.u32|.s32)", wide, MUL, 3, 3},
    {"mad.wide(.b16|.u16|.s16|.b32|.u32|.s32)", wide, MAD, 4, 4},
    {"div" INTEGER, several, DIV, 3, 3},
    {"rem" INTEGER, several, REM, 3, 3},
    {"min" INTEGER, several, MIN, 3, 3},
    {"max" INTEGER, several, MAX, 3, 3},
    {"and" INTEGER, several, AND, 3, 3},
    {"or" INTEGER, several, OR, 3, 3},
    {"xor" INTEGER, several, XOR, 3, 3},
    {"shl" INTEGER, several, SHL, 3, 3},
    {"shr" INTEGER, several, SHR, 3, 3},
    {"and.pred", logic_of_predicates, AND, 3, 3},
    {"or.pred", logic_of_predicates, OR, 3, 3},
    {"xor.pred", logic_of_predicates, XOR, 3, 3},
    {"not.pred", not_predicate, 0, 2, 2},
    {"not" INTEGER, one, NOT, 2, 2},
    {"neg" INTEGER, one, NEG, 2, 2},
    {"abs" INTEGER, one, ABS, 2, 2},
    {"popc" INTEGER, one, POPC, 2, 2},
    {"clz" INTEGER, one, CLZ, 2, 2},
    {"brev" INTEGER, one, BREV, 2, 2},
    {"setp" COMPARISON INTEGER, setp, 0, 3, 3},
    {"setp(.eq|.ne|.lt|.le|.gt|.ge)(.f32|.ftz.f32)", setp_float, 0, 3, 3},
    {"bmsk.clamp.b32", bmsk, 0, 3, 3},
    {"bfe(.u32|.s32)", bfe, 0, 4, 4},
    {"bfi.b32", bfi, 0, 5, 5},
    {"lop3.b32", lop3, 0, 5, 5},
    {"prmt.b32", prmt, 0, 4, 4},
    {"shf(.l|.r)(.clamp|.wrap).b32", shf, 0, 4, 4},
    {"mapa.shared::cluster.u32", mapa, 0, 3, 3},
    {"cvta.shared(|::cta|::cluster)(.u32|.u64)", from_shared, 0, 2, 2},
    {"cvta.to.shared(|::cta|::cluster)(.u32|.u64)", to_shared, 0, 2, 2},
    {"cvta(|.to).global(.u32|.u64)", mov, 0, 2, 2},
    {"createpolicy.fractional(.L2::evict_first|.L2::evict_last|.L2::evict_normal|.L2::evict_"
     "unchanged).b64",
     createpolicy, 0, 1, 2},
    {0},
};
