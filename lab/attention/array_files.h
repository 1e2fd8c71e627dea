/* array_files.h: an attention problem whose tensors are .npy files.
 *
 * Inputs are mapped, never copied; only the few numbers of slopes, sinks and lengths are
 * converted if NumPy's default types (float64, int64) are not the library's. */
#ifndef LAB_ARRAY_FILES_H
#define LAB_ARRAY_FILES_H

#include <stdbool.h>

#include <jansson.h>

#include "attest.h"
#include "lab/base/message.h"
#include "lab/problem/npy.h"
#include "lab/problem/spec.h"

typedef enum lab_file {
    LAB_FILE_Q,
    LAB_FILE_K,
    LAB_FILE_V,
    LAB_FILE_ALIBI,
    LAB_FILE_BIAS,
    LAB_FILE_SINKS,
    LAB_FILE_CU_Q,
    LAB_FILE_CU_K,
    LAB_FILE_LENS_K,
    LAB_FILE_STARTS_K,
    LAB_FILE_Q_OFFSETS,
    LAB_FILE_K_OFFSETS,
    LAB_FILE_COUNT
} lab_file;

typedef struct lab_array_paths {
    const char *input[LAB_FILE_COUNT]; /* Q, K, V set; NULL for those that the problem does not
                                        * have */
    const char *o;
    const char *lse; /* NULL: none */
    bool uint16_is_bf16;
} lab_array_paths;

typedef struct lab_array_files {
    att_problem problem;
    att_args args;
    lab_npy array[LAB_FILE_COUNT];
    void *converted[LAB_FILE_COUNT];
    lab_npy_writer o, lse;
} lab_array_files;

/* Map the inputs and derive the problem from their shapes.
 *
 * base  what the arrays do not say: causal, align, window, softcap, scale, layout, dtype_o; a
 *       spec not yet finished. Q, K and V are 4-D in its layout, or (total, heads, d) on a side
 *       that has cu_seqlens. The bias has up to 4 dimensions, each of full size or 1. */
bool lab_array_files_open(lab_array_files *out, const lab_array_paths *paths,
                          const lab_spec *base, lab_message *why);

/* Create the outputs, as temporary files, and point args at them. */
bool lab_array_files_create_outputs(lab_array_files *files, const lab_array_paths *paths,
                                    lab_message *why);

/* Put the finished outputs in place. */
bool lab_array_files_commit(lab_array_files *files, lab_message *why);

/* Unmap everything; outputs that were not committed leave nothing behind. */
void lab_array_files_close(lab_array_files *files);

/* Operations of one run: 2 (d_qk + d_v) for every (row, key) pair that mask and lengths leave
 * visible. */
double lab_array_files_flops(const lab_array_files *files);

/* The sizes and types of the problem. */
json_t *lab_array_files_json(const lab_array_files *files);

#endif
