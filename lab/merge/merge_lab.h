/* merge_lab.h: merge in the laboratory: the parts of lab_operation_merge. */
#ifndef LAB_MERGE_LAB_H
#define LAB_MERGE_LAB_H

#include "lab/problem/lab_operation.h"
#include "lab/tensors/tensors.h"
#include "merge/merge.h"

/* Its buffers, in the order of lab_tensors.buffer: o, lse, then part_o and part_lse of every part. */
enum { LAB_MERGE_O, LAB_MERGE_LSE, LAB_MERGE_PARTS };

extern const lab_modifier lab_merge_modifiers[];
void lab_merge_init(lab_spec *spec);
bool lab_merge_finish(lab_spec *spec, lab_message *why);
void lab_merge_print(const lab_spec *spec, char *buf, size_t n);
bool lab_merge_sizes(const lab_spec *spec, lab_tensor_size list[LAB_TENSORS_MAX], int *count);
void lab_merge_point(lab_args *args, const lab_spec *spec, const lab_buffer *buffers);
void lab_merge_locate(const lab_args *args, const lab_spec *spec,
                      const void *list[LAB_TENSORS_MAX]);
bool lab_merge_fill(lab_tensors *tensors, uint64_t seed, lab_message *why);
bool lab_merge_turnable(const lab_tensors *tensors);
void lab_merge_turn(lab_tensors *tensors, uint64_t seed);
void lab_merge_drawn(lab_tensors *tensors, uint64_t seed,
                     void (*visit)(lab_tensors *tensors, lab_row row, void *context),
                     void *context);

/* Element index of row i of head h in batch entry b. */
static inline int64_t lab_merge_index(const att_strides *s, lab_row row) {
    return att_merge_index(s, row.b, row.h, row.i);
}

#endif
