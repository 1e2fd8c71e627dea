/* backward_lab.h: the gradients of attention in the laboratory: the parts of
 * lab_operation_backward.
 *
 * A problem is an attention whose O and LSE are inputs, which the laboratory computes
 * itself. */
#ifndef LAB_BACKWARD_LAB_H
#define LAB_BACKWARD_LAB_H

#include "lab/attention/attention_lab.h"

/* Its buffers: those of attention, then these. */
enum {
    LAB_D_O = LAB_TENSOR_COUNT,
    LAB_D_Q,
    LAB_D_K,
    LAB_D_V,
    LAB_D_BIAS,
    LAB_D_SINKS,
    LAB_D_ALIBI,
    LAB_BACKWARD_TENSOR_COUNT
};

/* Its sets of rows: of d_q, of d_k and d_v, of d_bias, of d_sinks, of d_alibi. */
enum {
    LAB_SET_QUERIES,
    LAB_SET_KEYS,
    LAB_SET_BIAS,
    LAB_SET_SINKS,
    LAB_SET_SLOPES,
    LAB_BACKWARD_SETS
};

extern const lab_modifier lab_backward_modifiers[];
void lab_backward_init(lab_spec *spec);
bool lab_backward_finish(lab_spec *spec, lab_message *why);
void lab_backward_print(const lab_spec *spec, char *buf, size_t n);
void lab_backward_work(lab_work *work, const lab_spec *spec);
bool lab_backward_sizes(const lab_spec *spec, lab_tensor_size list[LAB_TENSORS_MAX],
                        int *count);
void lab_backward_point(lab_args *args, const lab_spec *spec, const lab_buffer *buffers);
void lab_backward_locate(const lab_args *args, const lab_spec *spec,
                         const void *list[LAB_TENSORS_MAX]);
bool lab_backward_fill(lab_tensors *tensors, uint64_t seed, lab_message *why);
bool lab_backward_turnable(const lab_tensors *tensors);
void lab_backward_turn(lab_tensors *tensors, uint64_t seed);
void lab_backward_drawn(lab_tensors *tensors, uint64_t seed,
                        void (*visit)(lab_tensors *tensors, lab_row row, void *context),
                        void *context);

/* Compute O and LSE of the problem from its other inputs: for small problems with the oracle;
 * for others with the library on the CPU, compared with the oracle in a few rows that the seed
 * draws. */
bool lab_backward_forward(lab_tensors *tensors, uint64_t seed, lab_message *why);

#endif
