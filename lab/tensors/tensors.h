/* tensors.h: the buffers of one problem, filled from a seed, guarded on both sides.
 *
 * Every buffer has 4 KiB of a known pattern before and after it. Inputs are hashed when made.
 * Elements that no index of the problem reaches (padding, keys past a sequence's length, unused
 * pages) hold NaN. Strides far beyond RAM cost little: only elements of the problem are
 * touched. */
#ifndef LAB_TENSORS_H
#define LAB_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attest.h"
#include "lab/base/message.h"
#include "lab/problem/lab_operation.h"
#include "lab/tensors/buffer.h"

typedef struct lab_tensors {
    lab_spec spec;
    union { /* ready for a run */
        lab_args any;
        att_args args; /* of attention */
    };
    int count;
    lab_tensor_size size[LAB_TENSORS_MAX];
    lab_buffer buffer[LAB_TENSORS_MAX];
} lab_tensors;

/* Allocate and fill from a finished spec. Fails if memory ran out. */
bool lab_tensors_create(lab_tensors **out, const lab_spec *spec, uint64_t seed,
                        lab_message *why);
void lab_tensors_destroy(lab_tensors *tensors);

/* Refill with contents from another seed, in the same memory. */
bool lab_tensors_renew(lab_tensors *tensors, uint64_t seed, lab_message *why);

/* The current outputs, without their guards: their size in bytes, a copy of them, and the copy
 * restored. */
size_t lab_tensors_output_bytes(const lab_tensors *tensors);
void lab_tensors_keep_outputs(const lab_tensors *tensors, unsigned char *copy);
void lab_tensors_put_outputs(lab_tensors *tensors, const unsigned char *copy);

/* Fill the outputs with NaN, so that values that a run did not write cannot pass for an
 * answer. */
void lab_tensors_poison_outputs(lab_tensors *tensors);

/* The same for this row of its set's outputs only. */
void lab_tensors_poison_row(lab_tensors *tensors, lab_row row);

/* A hash of a few output rows, drawn by the seed: takes almost no time. */
uint64_t lab_tensors_glance(const lab_tensors *tensors, uint64_t seed);

/* Check that guards are intact, inputs unchanged, and padding of the outputs untouched; if not,
 * `why` says which. */
bool lab_tensors_check(const lab_tensors *tensors, lab_message *why);

/* A hash of the current outputs, to compare runs bit by bit. */
uint64_t lab_tensors_hash_outputs(const lab_tensors *tensors);

#endif
