/* code_digest.h: the digests of a kernel of the library: of its machine code and of its
 * sources.
 *
 * Neither depends on comments, layout, paths or the build folder. */
#ifndef LAB_CODE_DIGEST_H
#define LAB_CODE_DIGEST_H

#include <stdbool.h>

#include "base/sha256.h"
#include "lab/base/message.h"
#include "core/registry.h"

/* Made when the program was built (scripts/source_digests.c). */
typedef struct lab_built {
    /* "portable" ... "amx": a CPU engine; "judge": the code that decides right or wrong;
     * "clock": the code that decides times; "host": the code that plans and launches;
     * "gpu_tests": its tests on a GPU. mk/evidence.mk lists the files of each. */
    const char *name;
    const char *sha256; /* of its sources and flags */
} lab_built;
extern const lab_built lab_built_digests[]; /* ends with a NULL name */
extern const char lab_built_nvcc[];  /* flags and version of nvcc; "" if there was none */
extern const char lab_built_flags[]; /* for the C compiler */

typedef struct lab_code_digests {
    char source[ATT_SHA256_HEX];
    char
        library[ATT_SHA256_HEX]; /* for a plug-in, of its file; "" for kernels of the library */
    char code
        [ATT_SHA256_HEX]; /* "" on the CPU, and if the library has no machine code for `cc` */
    char compiler[256];   /* that built the library's code */
    char flags[512];      /* for that compiler */
} lab_code_digests;

/* The digests of `row`; for a GPU kernel, of its code for compute capability `cc`. The code is
 * hashed now, so a library that was changed after its build has another digest. */
bool lab_code_digests_of(lab_code_digests *digests, const att_kernel_row *row, int cc,
                         lab_message *why);

/* The digest of a file; false if it cannot be read. */
bool lab_file_digest(const char *path, char hex[ATT_SHA256_HEX]);

/* Whether the library has machine code for GPUs: it has none if it was built without nvcc. */
bool lab_has_gpu_code(void);

/* The digest of a part made at build time; "" if there is none. */
const char *lab_built_digest(const char *name);

#endif
