/* embed.h: what the build put into the library: machine code of the kernels, and their source text.
 * Both tables are written by scripts/cuda_embed.sh and end with a row of zeros. Where there was no nvcc the
 * first is empty. */
#ifndef ATT_CUDA_EMBED_H
#define ATT_CUDA_EMBED_H

#include <stddef.h>

typedef struct att_embedded_code {
    const char *id;
    int cc; /* machine code for this compute capability; 0: PTX for 8.0 and newer */
    const unsigned char *bytes; /* a fat binary, compressed, as the driver takes it */
    size_t size;
    const char *sha256;
} att_embedded_code;

typedef struct att_embedded_text {
    const char *name; /* as kernels include it: "kernels/mma.cuh" */
    const char *text; /* ends with a zero */
    size_t size;      /* without it */
} att_embedded_text;

extern const att_embedded_code att_embedded_codes[];
extern const att_embedded_text att_embedded_texts[];

/* The machine code of kernel `id` that a GPU of `cc` runs (0: PTX), or NULL. */
const att_embedded_code *att_embedded_code_find(const char *id, int cc);

/* The source text of that name, or NULL. */
const att_embedded_text *att_embedded_text_find(const char *name);

#endif
