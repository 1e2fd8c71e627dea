/* arithmetic.c: instructions on floating-point numbers, of 32 and of 16 bits, and
 * conversions. */
#include <math.h>

#include "tests/virtual_gpu/ptx.h"

enum { F16, BF16 }; /* options, and alternatives, of 16-bit types */

static float flush(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

/* ---- functions of one number: near exact, where the hardware approximates ---- */

typedef enum function { EX2, RCP, LG2, SQRT, RSQRT, TANH, SIN, COS } function;

static float apply(function f, float x) {
    switch (f) {
    case EX2:
        return exp2f(x);
    case RCP:
        return 1.0f / x;
    case LG2:
        return log2f(x);
    case SQRT:
        return sqrtf(x);
    case RSQRT:
        return 1.0f / sqrtf(x);
    case TANH:
        return tanhf(x);
    case SIN:
        return sinf(x);
    case COS:
        return cosf(x);
    }
    return x;
}

static void one_float(ptx_frame *f) {
    const bool flushes = f->instruction->choice[0];
    const float x = ptx_get_float(f, 1);
    const float y = apply((function)f->instruction->option, flushes ? flush(x) : x);
    ptx_set_float(f, 0, flushes ? flush(y) : y);
}

static void one_packed(ptx_frame *f) {
    const bool is_bf16 = f->instruction->choice[0] == BF16;
    const uint64_t x = ptx_get(f, 1);
    uint64_t out = 0;
    for (int i = 0; i < 2; i++) {
        const float y = apply((function)f->instruction->option,
                              small_to_float((uint16_t)(x >> 16 * i), is_bf16));
        out |= (uint64_t)small_from_float(y, is_bf16) << 16 * i;
    }
    ptx_set(f, 0, out);
}

static void change_sign(ptx_frame *f) {
    const uint32_t sign = UINT32_C(1) << 31, bits = (uint32_t)ptx_get(f, 1);
    ptx_set(f, 0, f->instruction->option ? bits ^ sign : bits & ~sign);
}

/* ---- of two and three ---- */

typedef enum operation { ADD, SUB, MUL, FMA, MIN, MAX } operation;

static float combine(operation o, float x, float y, float z) {
    switch (o) {
    case ADD:
        return x + y;
    case SUB:
        return x - y;
    case MUL:
        return x * y;
    case FMA:
        return fmaf(x, y, z);
    case MIN:
        return fminf(x, y);
    case MAX:
        return fmaxf(x, y);
    }
    return x;
}

static float third(const ptx_frame *f) {
    return f->instruction->count > 3 ? ptx_get_float(f, 3) : 0.0f;
}

/* Groups: flush, saturate. */
static void several_floats(ptx_frame *f) {
    const operation o = (operation)f->instruction->option;
    float x = ptx_get_float(f, 1), y = ptx_get_float(f, 2), z = third(f);
    const bool flushes = f->instruction->choice[0], saturates = f->instruction->choice[1];
    if (flushes)
        x = flush(x), y = flush(y), z = flush(z);
    float out = combine(o, x, y, z);
    if (flushes)
        out = flush(out);
    if (saturates)
        out = out > 0.0f ? fminf(out, 1.0f) : 0.0f;
    ptx_set_float(f, 0, out);
}

static void several_small(ptx_frame *f) {
    const operation o = (operation)f->instruction->option;
    const int type = f->instruction->choice[0],
              count = type < 2 ? 2 : 1; /* f16x2, bf16x2, f16, bf16 */
    const bool is_bf16 = type % 2 == BF16;
    const uint64_t bits[3] = {ptx_get(f, 1), ptx_get(f, 2),
                              f->instruction->count > 3 ? ptx_get(f, 3) : 0};
    uint64_t out = 0;
    for (int i = 0; i < count; i++) {
        float x[3];
        for (int k = 0; k < 3; k++)
            x[k] = small_to_float((uint16_t)(bits[k] >> 16 * i), is_bf16);
        out |= (uint64_t)small_from_float(combine(o, x[0], x[1], x[2]), is_bf16) << 16 * i;
    }
    ptx_set(f, 0, out);
}

/* ---- conversions ---- */

enum { PLAIN, RELU, SATFINITE };

static uint16_t narrow(float x, bool is_bf16, int how) {
    const float most = is_bf16 ? 0x1.fep+127f : 65504.0f;
    if (how == RELU && !(x > 0.0f) && !isnan(x))
        x = 0.0f;
    if (how == SATFINITE && !isnan(x))
        x = fminf(fmaxf(x, -most), most);
    return small_from_float(x, is_bf16);
}

/* Groups: mode, type. The first source is the upper half. */
static void pack(ptx_frame *f) {
    const bool is_bf16 = f->instruction->choice[1] == BF16;
    const int how = f->instruction->choice[0];
    const uint64_t high = narrow(ptx_get_float(f, 1), is_bf16, how),
                   low = narrow(ptx_get_float(f, 2), is_bf16, how);
    ptx_set(f, 0, high << 16 | low);
}

static void narrow_one(ptx_frame *f) {
    ptx_set(f, 0,
            narrow(ptx_get_float(f, 1), f->instruction->choice[1] == BF16,
                   f->instruction->choice[0]));
}

static void widen_one(ptx_frame *f) {
    ptx_set_float(f, 0,
                  small_to_float((uint16_t)ptx_get(f, 1), f->instruction->choice[0] == BF16));
}

/* Ten bits of fraction, ties away from zero. */
static void to_tf32(ptx_frame *f) {
    const uint32_t bits = (uint32_t)ptx_get(f, 1);
    const bool finite = (bits & 0x7f800000) != 0x7f800000;
    ptx_set(f, 0, finite ? (bits + 0x1000) & ~UINT32_C(0x1fff) : bits);
}

static void from_integer(ptx_frame *f) {
    const uint32_t bits = (uint32_t)ptx_get(f, 1);
    ptx_set_float(f, 0, f->instruction->choice[0] ? (float)bits : (float)(int32_t)bits);
}

/* Groups: rounding, sign. Out of range gives the nearest; NaN gives 0. */
static void to_integer(ptx_frame *f) {
    const float x = ptx_get_float(f, 1);
    float whole = x;
    switch (f->instruction->choice[0]) {
    case 0:
        whole = nearbyintf(x);
        break;
    case 1:
        whole = truncf(x);
        break;
    case 2:
        whole = floorf(x);
        break;
    default:
        whole = ceilf(x);
        break;
    }
    const bool is_signed = f->instruction->choice[1] == 0;
    const double least = is_signed ? INT32_MIN : 0, most = is_signed ? INT32_MAX : UINT32_MAX;
    const double clamped = isnan(x) ? 0 : fmin(fmax((double)whole, least), most);
    ptx_set(f, 0, (uint32_t)(int64_t)clamped);
}

#define SMALL "(.f16x2|.bf16x2|.f16|.bf16)"

const ptx_row ptx_arithmetic[] = {
    {"ex2.approx(|.ftz).f32", one_float, EX2, 2, 2},
    {"rcp.approx(|.ftz).f32", one_float, RCP, 2, 2},
    {"rcp.rn(|.ftz).f32", one_float, RCP, 2, 2},
    {"lg2.approx(|.ftz).f32", one_float, LG2, 2, 2},
    {"sqrt.approx(|.ftz).f32", one_float, SQRT, 2, 2},
    {"sqrt.rn(|.ftz).f32", one_float, SQRT, 2, 2},
    {"rsqrt.approx(|.ftz).f32", one_float, RSQRT, 2, 2},
    {"sin.approx(|.ftz).f32", one_float, SIN, 2, 2},
    {"cos.approx(|.ftz).f32", one_float, COS, 2, 2},
    {"tanh.approx(|.ftz).f32", one_float, TANH, 2, 2},
    {"ex2.approx(.f16x2|.ftz.bf16x2)", one_packed, EX2, 2, 2},
    {"tanh.approx(.f16x2|.bf16x2)", one_packed, TANH, 2, 2},
    {"abs(|.ftz).f32", change_sign, 0, 2, 2},
    {"neg(|.ftz).f32", change_sign, 1, 2, 2},
    {"add(|.ftz)(|.sat).f32", several_floats, ADD, 3, 3},
    {"sub(|.ftz)(|.sat).f32", several_floats, SUB, 3, 3},
    {"mul(|.ftz)(|.sat).f32", several_floats, MUL, 3, 3},
    {"add.rn(|.ftz)(|.sat).f32", several_floats, ADD, 3, 3},
    {"sub.rn(|.ftz)(|.sat).f32", several_floats, SUB, 3, 3},
    {"mul.rn(|.ftz)(|.sat).f32", several_floats, MUL, 3, 3},
    {"fma.rn(|.ftz)(|.sat).f32", several_floats, FMA, 4, 4},
    {"min(|.ftz).f32", several_floats, MIN, 3, 3},
    {"max(|.ftz).f32", several_floats, MAX, 3, 3},
    {"add" SMALL, several_small, ADD, 3, 3},
    {"add.rn" SMALL, several_small, ADD, 3, 3},
    {"sub" SMALL, several_small, SUB, 3, 3},
    {"sub.rn" SMALL, several_small, SUB, 3, 3},
    {"mul" SMALL, several_small, MUL, 3, 3},
    {"mul.rn" SMALL, several_small, MUL, 3, 3},
    {"fma.rn" SMALL, several_small, FMA, 4, 4},
    {"min" SMALL, several_small, MIN, 3, 3},
    {"max" SMALL, several_small, MAX, 3, 3},
    {"cvt.rn(|.relu|.satfinite)(.f16x2|.bf16x2).f32", pack, 0, 3, 3},
    {"cvt.rn(|.relu|.satfinite)(.f16|.bf16).f32", narrow_one, 0, 2, 2},
    {"cvt.f32(.f16|.bf16)", widen_one, 0, 2, 2},
    {"cvt.rna.tf32.f32", to_tf32, 0, 2, 2},
    {"cvt.rn.f32(.s32|.u32)", from_integer, 0, 2, 2},
    {"cvt(.rni|.rzi|.rmi|.rpi)(.s32|.u32).f32", to_integer, 0, 2, 2},
    {0},
};
