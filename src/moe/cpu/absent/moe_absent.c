/* moe_absent.c: the rows of another processor's instruction sets; see attention_absent.c. */
#include "moe/cpu/moe_code.h"

static const att_moe_code by_fma = {.transposes = true};

#define ABSENT(kernel, code_of_it)                                                             \
    extern const att_cpu_kernel kernel;                                                        \
    const att_cpu_kernel kernel = {.id = #kernel, .code = &code_of_it}

#if !defined(__x86_64__)
static const att_moe_code by_dot_products = {.transposes = true, .pairs = true};
static const att_moe_code by_tiles = {.pairs = true};
ABSENT(moe_cpu_avx2, by_fma);
ABSENT(moe_cpu_avx512, by_fma);
ABSENT(moe_cpu_avx512_bf16, by_dot_products);
ABSENT(moe_cpu_amx, by_tiles);
#endif
#if !defined(__aarch64__)
ABSENT(moe_cpu_neon, by_fma);
#endif
