/* attention_lab.h: attention in the laboratory: the parts of lab_operation_attention. */
#ifndef LAB_ATTENTION_LAB_H
#define LAB_ATTENTION_LAB_H

#include "lab/problem/lab_operation.h"
#include "lab/tensors/tensors.h"

/* Its buffers, in the order of lab_tensors.buffer. */
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
    LAB_STARTS_K,
    LAB_PAGE_TABLE,
    LAB_TENSOR_COUNT
} lab_tensor;

extern const lab_modifier lab_attention_modifiers[];
void lab_attention_init(lab_spec *spec);
bool lab_attention_finish(lab_spec *spec, lab_message *why);
void lab_attention_print(const lab_spec *spec, char *buf, size_t n);
void lab_attention_work(lab_work *work, const lab_spec *spec);
bool lab_attention_sizes(const lab_spec *spec, lab_tensor_size list[LAB_TENSORS_MAX],
                         int *count);
void lab_attention_point(lab_args *args, const lab_spec *spec, const lab_buffer *buffers);
void lab_attention_locate(const lab_args *args, const lab_spec *spec,
                          const void *list[LAB_TENSORS_MAX]);
void lab_attention_fill(lab_tensors *tensors, uint64_t seed);
bool lab_attention_turnable(const lab_tensors *tensors);
void lab_attention_turn(lab_tensors *tensors, uint64_t seed);
void lab_attention_drawn(lab_tensors *tensors, uint64_t seed,
                         void (*visit)(lab_tensors *tensors, lab_row row, void *context),
                         void *context);

#endif
