/* attention_absent.c: the rows of another processor's instruction sets.
 *
 * No context reaches them, since src/cpu/features.c finds none of these sets here. The rows stay in the registry: `explain`
 * says what they need, and `certify --check` judges statements of other machines by them, for which a family may
 * ask for the fields that are set here. */
#include "attention/cpu/kernel.h"

enum { DECODE_ROWS = 8 }; /* as in decode_body.h */

static const att_cpu_code fwd, decode = {.row_most = DECODE_ROWS};

#define ABSENT(kernel, code_of_it)                                                             \
    extern const att_cpu_kernel kernel;                                                        \
    const att_cpu_kernel kernel = {.id = #kernel, .code = &code_of_it}

#if !defined(__x86_64__)
ABSENT(fwd_cpu_avx2, fwd);
ABSENT(fwd_cpu_avx512, fwd);
ABSENT(fwd_cpu_avx512_bf16, fwd);
ABSENT(fwd_cpu_amx, fwd);
ABSENT(decode_cpu_avx2, decode);
ABSENT(decode_cpu_avx512, decode);
#endif
#if !defined(__aarch64__)
ABSENT(fwd_cpu_neon, fwd);
ABSENT(decode_cpu_neon, decode);
#endif
