/* code_digest.h: what a kernel of the library is, in digests: its machine code and the sources that it comes from.
 *
 * Neither depends on comments, on the layout of the text, on paths or on the build folder. */
#ifndef LAB_CODE_DIGEST_H
#define LAB_CODE_DIGEST_H

#include <stdbool.h>

#include "base/sha256.h"
#include "lab/base/message.h"
#include "core/registry.h"

/* Made when the program was built (scripts/source_digests.c). */
typedef struct lab_built {
    /* "portable" ... "amx": a CPU engine; "judge": what decides right or wrong; "clock": what decides times; "host": the code that
     * plans and launches; "gpu_tests": the tests of that on a GPU. mk/evidence.mk says which files each has. */
    const char *name;
    const char *sha256; /* of its sources and flags */
} lab_built;
extern const lab_built lab_built_digests[]; /* ends with a NULL name */
extern const char lab_built_nvcc[];  /* flags and version of nvcc; "" where there was none */
extern const char lab_built_flags[]; /* of the C compiler */

typedef struct lab_code_digests {
    char source[ATT_SHA256_HEX];
    char
        library[ATT_SHA256_HEX]; /* of a plug-in: its file; "" for the kernels of the library */
    char code
        [ATT_SHA256_HEX]; /* "" on the CPU, and where the library has no machine code for `cc` */
    char compiler[256];   /* that made the code of the library */
    char flags[512];      /* given to it */
} lab_code_digests;

/* The digests of `row`; of a GPU kernel, those of its code for compute capability `cc`. The code is hashed now, so a
 * library that was changed after its build has another digest. */
bool lab_code_digests_of(lab_code_digests *digests, const att_kernel_row *row, int cc,
                         lab_message *why);

/* The digest of a file; false where it cannot be read. */
bool lab_file_digest(const char *path, char hex[ATT_SHA256_HEX]);

/* The digest of a part made at build time, "" where there is none. */
const char *lab_built_digest(const char *name);

#endif
