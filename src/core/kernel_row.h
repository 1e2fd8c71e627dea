/* kernel_row.h: one row of the registry. */
#ifndef ATT_CORE_KERNEL_ROW_H
#define ATT_CORE_KERNEL_ROW_H

#include <stdbool.h>

#include "attest.h"
#include "cuda/row.h"

/* A CPU kernel: its id, and its family's struct with the code. */
typedef struct att_cpu_kernel {
    const char *id;
    const void *code;
} att_cpu_kernel;

/* Measured times of a tile, for att_family.estimate: nanoseconds on the GPU on which they were
 * fitted. */
typedef struct att_row_times {
    int start;  /* until a block's first tile is running, and after its last */
    int tile;   /* per tile */
    int cut;    /* extra per tile that a mask cuts */
    double key; /* per key */
    int least;  /* minimum head dimension: smaller ones have other rows */
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
    bool unattested;             /* ships without evidence; serves only if that is allowed */
    const struct att_row_scope *scope; /* limits of a user's row; NULL: a built-in one */
} att_kernel_row;

#endif
