/* tensors.h: the buffers of one problem, filled from a seed, guarded on both sides.
 *
 * Every buffer has 4 KiB of a known pattern before and after it. Inputs are hashed when made.
 * Elements that no index of the problem reaches (padding) hold NaN. Memory comes from mmap and is
 * touched only where the problem has elements, so strides far beyond RAM cost little. */
#ifndef LAB_TENSORS_H
#define LAB_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attest.h"
#include "lab/message.h"
#include "lab/spec.h"

typedef struct lab_buffer {
    unsigned char *map; /* the mapping: guard, data, guard */
    size_t map_bytes;
    unsigned char *data; /* first byte the problem may address */
    size_t bytes;
    uint64_t hash; /* inputs: of the contents when made */
} lab_buffer;

typedef enum lab_tensor {
    LAB_Q,
    LAB_K,
    LAB_V,
    LAB_O,
    LAB_LSE,
    LAB_ALIBI,
    LAB_BIAS,
    LAB_SINKS,
    LAB_CU_Q,
    LAB_CU_K,
    LAB_LENS_K,
    LAB_PAGE_TABLE,
    LAB_TENSOR_COUNT
} lab_tensor;

typedef struct lab_tensors {
    lab_spec spec;
    att_args args; /* ready for att_plan_run() */
    lab_buffer buffer[LAB_TENSOR_COUNT];
} lab_tensors;

/* Allocate and fill from a finished spec. Fails when memory cannot be had. */
bool lab_tensors_create(lab_tensors **out, const lab_spec *spec, uint64_t seed,
                        lab_message *why);
void lab_tensors_destroy(lab_tensors *tensors);

/* Fill O and LSE with NaN, so that what a run leaves out cannot pass for an answer. */
void lab_tensors_poison_outputs(lab_tensors *tensors);

/* Guards whole, inputs as they were, padding of the outputs untouched; else which is not. */
bool lab_tensors_check(const lab_tensors *tensors, lab_message *why);

/* A hash of O and LSE as they stand, to compare runs bit by bit. */
uint64_t lab_tensors_hash_outputs(const lab_tensors *tensors);

/* Workspace of `bytes`, aligned as the library wants it, guarded and filled with NaN. */
bool lab_workspace_create(lab_buffer *workspace, size_t bytes, lab_message *why);
void lab_workspace_poison(lab_buffer *workspace);
bool lab_workspace_check(const lab_buffer *workspace, lab_message *why);
void lab_workspace_destroy(lab_buffer *workspace);

#endif
