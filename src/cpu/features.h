/* features.h: which instruction sets this processor and operating system offer. */
#ifndef ATT_CPU_FEATURES_H
#define ATT_CPU_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

#include "attest.h"

/* The highest instruction set that can be used here, determined once. For AMX this also
 * requests the kernel's permission to use its registers, which then holds for the whole
 * process. */
att_isa att_cpu_isa(void);

/* The default: the same, but never one that a test build emulates. */
att_isa att_cpu_isa_unasked(void);

/* Does a processor whose highest instruction set is `has` run code for `needs`? Those of x86-64
 * include all below them; NEON includes portable alone. */
bool att_isa_includes(att_isa has, att_isa needs);

/* "portable", "avx2", "avx512", "avx512_bf16", "amx", "neon", or "auto"; and the inverse, which returns
 * ATT_ISA_AUTO with *ok = 0 for anything else. */
const char *att_isa_name(att_isa isa);
att_isa att_isa_parse(const char *name, int *ok);

/* The processor's name; "unknown" if it has none. */
void att_cpu_name(char *name, size_t n);

#endif
