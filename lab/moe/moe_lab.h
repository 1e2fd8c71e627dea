/* moe_lab.h: mixtures of experts in the laboratory: the parts of lab_operation_moe. */
#ifndef LAB_MOE_LAB_H
#define LAB_MOE_LAB_H

#include "lab/problem/lab_operation.h"
#include "lab/tensors/tensors.h"
#include "moe/moe.h"

/* Its buffers. */
enum {
    LAB_MOE_Y,
    LAB_MOE_IDS,
    LAB_MOE_WEIGHTS,
    LAB_MOE_COUNTS,
    LAB_MOE_X,
    LAB_MOE_LOGITS,
    LAB_MOE_W1,
    LAB_MOE_W2,
    LAB_MOE_W3,
    LAB_MOE_B1,
    LAB_MOE_B2,
    LAB_MOE_B3,
    LAB_MOE_CORRECTION,
    LAB_MOE_MASK,
    LAB_MOE_GIVEN_IDS,
    LAB_MOE_GIVEN_WEIGHTS,
    LAB_MOE_TENSORS
};

/* Its sets of rows: y, ids and weights have one row per token; counts have one row. */
enum { LAB_MOE_SET_TOKENS, LAB_MOE_SET_COUNTS, LAB_MOE_SETS };

extern const lab_modifier lab_moe_modifiers[];
void lab_moe_init(lab_spec *spec);
bool lab_moe_finish(lab_spec *spec, lab_message *why);
void lab_moe_print(const lab_spec *spec, char *buf, size_t n);
json_t *lab_moe_shape(const lab_spec *spec);
void lab_moe_work(lab_work *work, const lab_spec *spec);

bool lab_moe_sizes(const lab_spec *spec, lab_tensor_size list[LAB_TENSORS_MAX], int *count);
void lab_moe_point(lab_args *args, const lab_spec *spec, const lab_buffer *buffers);
void lab_moe_locate(const lab_args *args, const lab_spec *spec,
                    const void *list[LAB_TENSORS_MAX]);
void lab_moe_translate(lab_args *to, const lab_args *from,
                       void *(*map)(const void *context, const void *address),
                       const void *context);
bool lab_moe_fill(lab_tensors *tensors, uint64_t seed, lab_message *why);
bool lab_moe_turnable(const lab_tensors *tensors);
void lab_moe_turn(lab_tensors *tensors, uint64_t seed);
void lab_moe_drawn(lab_tensors *tensors, uint64_t seed,
                   void (*visit)(lab_tensors *tensors, lab_row row, void *context),
                   void *context);

/* Whether a token is masked, if there is a mask: every fourth is. */
static inline bool lab_moe_is_masked(const att_moe_problem *p, int64_t token) {
    return p->features & ATT_MOE_MASK && token % 4 == 2;
}

#endif
