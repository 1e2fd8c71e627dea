/* float_state.c: floating-point control registers, read, compared and written. */
#include "lab/base/float_state.h"

#include <fenv.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

/* MXCSR without the exception flags. */
enum { MXCSR_RULES = 0xffc0 };

lab_float_state lab_float_save(void) {
    uint16_t control;
    __asm__ volatile("fnstcw %0" : "=m"(control));
    return (lab_float_state){_mm_getcsr() & MXCSR_RULES, control};
}

static void put_back(lab_float_state kept) {
    const uint16_t control = (uint16_t)kept.scalar;
    __asm__ volatile("fldcw %0" : : "m"(control));
    _mm_setcsr((unsigned)kept.vector);
}
#elif defined(__aarch64__)
lab_float_state lab_float_save(void) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return (lab_float_state){control, 0};
}

static void put_back(lab_float_state kept) {
    __asm__ volatile("msr fpcr, %0" : : "r"(kept.vector));
}
#else
lab_float_state lab_float_save(void) {
    return (lab_float_state){0, (uint64_t)fegetround()};
}

static void put_back(lab_float_state kept) {
    fesetround((int)kept.scalar);
}
#endif

bool lab_float_restore(lab_float_state kept) {
    const lab_float_state now = lab_float_save();
    if (now.vector == kept.vector && now.scalar == kept.scalar)
        return true;
    put_back(kept);
    return false;
}

void lab_float_default(void) {
    fesetenv(FE_DFL_ENV);
}
