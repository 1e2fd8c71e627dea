/* shared_words.cuh: words of shared memory, by address. */
#ifndef ATT_SHARED_WORDS_CUH
#define ATT_SHARED_WORDS_CUH

#include "kernels/config.cuh"

DEVICE int shared_word(unsigned from) {
    int x;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
}

DEVICE float shared_float(unsigned from) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
}

DEVICE void write_word(unsigned to, int x) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}

DEVICE void write_words(unsigned to, int a, int b, int c, int d) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
                 "r"(d)
                 : "memory");
}

DEVICE void write_floats(unsigned to, const float x[4]) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(x[0]), "f"(x[1]),
                 "f"(x[2]), "f"(x[3])
                 : "memory");
}

#endif
