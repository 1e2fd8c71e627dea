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
    LAB_Q_OFFSETS,
    LAB_K_OFFSETS,
    LAB_PAGE_TABLE,
    LAB_TENSOR_COUNT
} lab_tensor;

/* Batch entries, heads, rows and columns of a tensor. */
typedef struct lab_extents {
    int64_t batch, head, row, col;
} lab_extents;

/* Those of Q, of K. */
lab_extents lab_extents_q(const lab_spec *spec);
lab_extents lab_extents_k(const lab_spec *spec);

/* The size of a tensor with these strides, and of one without; of Q, K and V in the one buffer
 * of the packed layout. False if it does not fit in 63 bits. */
bool lab_size_strided(lab_tensor_size *size, const att_strides *strides, lab_extents n,
                      size_t element_size);
bool lab_size_packed(lab_tensor_size *size, const lab_spec *spec, size_t element_size);
void lab_size_flat(lab_tensor_size *size, int64_t elements, size_t element_size);

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
bool lab_attention_fill(lab_tensors *tensors, uint64_t seed, lab_message *why);
void lab_attention_translate(lab_args *to, const lab_args *from,
                             void *(*map)(const void *context, const void *address),
                             const void *context);
bool lab_attention_turnable(const lab_tensors *tensors);
void lab_attention_turn(lab_tensors *tensors, uint64_t seed);
void lab_attention_drawn(lab_tensors *tensors, uint64_t seed,
                         void (*visit)(lab_tensors *tensors, lab_row row, void *context),
                         void *context);

#endif
