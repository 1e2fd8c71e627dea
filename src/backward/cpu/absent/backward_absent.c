/* backward_absent.c: the rows of x86-64's instruction sets in a build for another processor; see attention_absent.c. */
#include "core/kernel_row.h"

#define ABSENT(kernel)                                                                         \
    extern const att_cpu_kernel kernel;                                                        \
    const att_cpu_kernel kernel = {.id = #kernel}

ABSENT(bwd_cpu_avx2);
ABSENT(bwd_cpu_avx512);
ABSENT(bwd_cpu_avx512_bf16);
ABSENT(bwd_cpu_amx);
