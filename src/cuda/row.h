/* row.h: a row of the registry for the GPU: an algorithm with one set of compile-time
 * constants. */
#ifndef ATT_CUDA_ROW_H
#define ATT_CUDA_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "attest.h"

/* Architectures whose GPUs have rows, as bits. */
enum {
    ATT_SM80 = 1u << 0,
    ATT_SM86 = 1u << 1,
    ATT_SM89 = 1u << 2,
    ATT_SM90 = 1u << 3,                /* sm_90a */
    ATT_SM80_90 = ATT_SM80 | ATT_SM90, /* 163 KB of shared memory per block, or more */
    ATT_SM86_89 = ATT_SM86 | ATT_SM89, /* 99 KB */
    ATT_SM8X = ATT_SM80 | ATT_SM86_89,
    ATT_SM_ALL = ATT_SM8X | ATT_SM90
};

/* The bit of compute capability `cc` (90 is 9.0); 0 if no row is for exactly that one. */
static inline uint32_t att_cuda_target_bit(int cc) {
    switch (cc) {
    case 80:
        return ATT_SM80;
    case 86:
        return ATT_SM86;
    case 89:
        return ATT_SM89;
    case 90:
        return ATT_SM90;
    default:
        return 0;
    }
}

/* The compute capability whose machine code a GPU of `cc` runs: 8.6 and 8.9 use that of 8.0,
 * since machine code runs on every later minor version. 8.7 does not: machine code is not
 * compatible between discrete and integrated GPUs. */
static inline int att_cuda_code_cc(int cc) {
    return cc == 86 || cc == 89 ? 80 : cc;
}

/* The last columns of ATT_CUDA_KERNEL: what the kernel is and its features, if any:
 * ATT_ROW_SUMMARY(columns, 0) and ATT_ROW_FEATURES(columns, 0, 0). */
#define ATT_ROW_SUMMARY(text, ...)            text
#define ATT_ROW_FEATURES(text, features, ...) (features)

/* What a kernel is for. */
typedef enum att_cuda_role {
    ATT_ROLE_PLAIN,   /* many rows, plain scores; mask, window, GQA, lengths; pages: Hopper */
    ATT_ROLE_GENERAL, /* many rows, every feature, any alignment */
    ATT_ROLE_DECODE,  /* few rows per K/V head, every feature; a group's heads in one tile */
    ATT_ROLE_COMBINE, /* merges the splits of the keys; no problem selects it */
    ATT_ROLE_RUNG,    /* a step of the ladder: for teaching; serves only if slow is allowed */
    ATT_ROLE_SMALL,   /* as PLAIN with smaller tiles, if PLAIN's would leave the GPU idle */
    ATT_ROLE_MASK,    /* reads a boolean mask before ATT_FEATURE_MASK kernels; not selected */
    ATT_ROLE_SPLIT,   /* as PLAIN, with keys split into parts that another kernel merges */
    ATT_ROLE_STEP     /* a step of backward runs besides the main kernel; not selected */
} att_cuda_role;

/* Does a kernel of this role only help others? If so, no problem selects it. */
static inline bool att_role_helps(att_cuda_role role) {
    return role == ATT_ROLE_COMBINE || role == ATT_ROLE_MASK || role == ATT_ROLE_STEP;
}

/* The score modifications of a kernel besides scaling, and where it finds keys, as bits:
 * compiled in, one row per set. -DFEATURES=; kernels/config.cuh has the same numbers for device
 * code. */
enum {
    ATT_FEATURE_ALIBI = 1u << 0,
    ATT_FEATURE_SOFTCAP = 1u << 1,
    ATT_FEATURE_BIAS = 1u << 2,
    ATT_FEATURE_MASK = 1u << 3, /* a boolean mask, read beforehand */
    ATT_FEATURE_PAGES =
        1u << 4 /* pages hold whole tiles; other rows read any pages, more slowly */
};

typedef struct att_cuda_kernel {
    const char *id;     /* also the symbol in the machine code */
    const char *source; /* kernels/<source>.cu */
    const char *summary;
    uint32_t targets; /* ATT_SM80 ... */
    att_cuda_role role;
    att_dtype dtype;    /* of Q, K and V; 0: any, decided at run time */
    int d_qk, d_v;      /* largest served; smaller ones are padded inside */
    int tile_m, tile_n; /* rows and keys per tile */
    int stages;         /* K/V tiles in flight */
    int warps;          /* per block */
    uint32_t features;  /* ATT_FEATURE_ALIBI ... */

    /* A user's row (core/user_rows.h): "-DUSE_X=0 ..." for the compiler, so that it is always
     * compiled here; NULL: a built-in one. */
    const char *defines;
    bool may_spill; /* otherwise a user's row whose registers spill is refused */
} att_cuda_kernel;

#endif
