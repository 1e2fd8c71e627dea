/* kernel_row.h: one row of the registry. */
#ifndef ATT_CORE_KERNEL_ROW_H
#define ATT_CORE_KERNEL_ROW_H

#include <stdbool.h>

#include "attest.h"
#include "cuda/row.h"

/* A CPU kernel: its id, and the struct of its family that says how it computes. */
typedef struct att_cpu_kernel {
    const char *id;
    const void *code;
} att_cpu_kernel;

/* Measured times of a tile, for att_family.estimate: nanoseconds on the GPU they were fitted on. */
typedef struct att_row_times {
    int start;  /* until the first tile of a block is under way, and after its last */
    int tile;   /* per tile */
    int cut;    /* more per tile where a mask cuts it */
    double key; /* per key */
    int least;  /* head dimension: smaller ones have rows of their own */
} att_row_times;

struct att_family;
struct att_row_scope;

typedef struct att_kernel_row {
    const char *id;
    const char *summary;
    const struct att_family *family;
    att_device device;
    att_isa isa;                 /* CPU */
    const att_cpu_kernel *cpu;   /* NULL for a GPU kernel */
    const att_cuda_kernel *cuda; /* NULL for a CPU kernel */
    att_row_times times;         /* all zero: none */
    bool unattested; /* ships without evidence, and serves only where that is allowed */
    const struct att_row_scope
        *scope; /* what a user's row is limited to; NULL: a built-in one */
} att_kernel_row;

#endif
