/* fake_tables.h: the tables of embed.h as a test wants them, instead of the build's own.
 * Included by the one file of a test: its definitions precede the library's. */
#ifndef ATT_FAKE_TABLES_H
#define ATT_FAKE_TABLES_H

#include "cuda/embed.h"
#include "cuda/row.h"

static const unsigned char fake_code_90[] = "machine code for 9.0";
static const unsigned char fake_code_80[] = "machine code for 8.0";
static const unsigned char fake_code_86[] = "machine code for 8.6";
static const unsigned char fake_ptx[] = "PTX";

const att_embedded_code att_embedded_codes[] = {
    {"fake_all", 90, fake_code_90, sizeof fake_code_90, "of 90"},
    {"fake_all", 80, fake_code_80, sizeof fake_code_80, "of 80"},
    {"fake_all", 0, fake_ptx, sizeof fake_ptx, "of ptx"},
    {"fake_hopper", 90, fake_code_90, sizeof fake_code_90, "of hopper"},
    {"fake_86", 86, fake_code_86, sizeof fake_code_86, "of 86"},
    {"fake_86", 0, fake_ptx, sizeof fake_ptx, "of ptx"},
    {0, 0, 0, 0, 0}};

static const char fake_source[] = "the source of fake kernels";
static const char fake_header[] = "a header";

const att_embedded_text att_embedded_texts[] = {
    {"kernels/fake.cu", fake_source, sizeof fake_source - 1},
    {"kernels/other.cu", fake_source, sizeof fake_source - 1},
    {"kernels/fake.cuh", fake_header, sizeof fake_header - 1},
    {"kernels/fake.h", fake_header, sizeof fake_header - 1},
    {0, 0, 0}};

static const att_cuda_kernel fake_all = {.id = "fake_all",
                                         .source = "fake",
                                         .targets = ATT_SM_ALL,
                                         .role = ATT_ROLE_PLAIN,
                                         .dtype = ATT_F16,
                                         .d_qk = 64,
                                         .d_v = 48,
                                         .tile_m = 128,
                                         .tile_n = 32,
                                         .stages = 2,
                                         .warps = 4};

/* A copy of fake_all under another id, so that a test can load what no other test has
 * loaded. */
static inline att_cuda_kernel fake_named(const char *id) {
    att_cuda_kernel row = fake_all;
    row.id = id;
    return row;
}

#endif
