/* backward_absent.c: the rows of another processor's instruction sets; see attention_absent.c. */
#include "core/kernel_row.h"

#define ABSENT(kernel)                                                                         \
    extern const att_cpu_kernel kernel;                                                        \
    const att_cpu_kernel kernel = {.id = #kernel}

#if !defined(__x86_64__)
ABSENT(bwd_cpu_avx2);
ABSENT(bwd_cpu_avx512);
ABSENT(bwd_cpu_avx512_bf16);
ABSENT(bwd_cpu_amx);
#endif
#if !defined(__aarch64__)
ABSENT(bwd_cpu_neon);
#endif
