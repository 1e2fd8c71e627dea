/* machine.h: names for what a context runs on and for the compiler of this program. */
#ifndef LAB_MACHINE_H
#define LAB_MACHINE_H

#include <stdbool.h>

#include "attest.h"
#include "lab/base/message.h"

/* "auto", "portable", "avx2", "avx512", "avx512_bf16", "amx", "neon". */
const char *lab_isa_name(att_isa isa);

/* The instruction set of that name; false if there is none. */
bool lab_isa_parse(att_isa *isa, const char *name);

/* Does a processor whose highest instruction set is `has` run code for `needs`? */
bool lab_isa_includes(att_isa has, att_isa needs);

/* "auto", "cpu", "cuda". */
const char *lab_device_name(att_device device);

/* "none", "library", "ptx", "source". */
const char *lab_origin_name(att_origin origin);

/* The number of GPUs that the driver finds; if none, `why` (may be NULL) says so. */
int lab_gpu_count(lab_message *why);

/* The compiler that built this program, e.g. "gcc 12.2.0". */
const char *lab_compiler(void);

#endif
