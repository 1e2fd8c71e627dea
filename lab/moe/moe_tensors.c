/* moe_tensors.c: the buffers of a mixture of experts: sizes and addresses. */
#include "base/checked.h"
#include "lab/moe/moe_lab.h"

static const char *const tensor_names[LAB_MOE_TENSORS] = {
    [LAB_MOE_Y] = "y",
    [LAB_MOE_IDS] = "ids",
    [LAB_MOE_WEIGHTS] = "weights",
    [LAB_MOE_COUNTS] = "counts",
    [LAB_MOE_X] = "x",
    [LAB_MOE_LOGITS] = "logits",
    [LAB_MOE_W1] = "w1",
    [LAB_MOE_W2] = "w2",
    [LAB_MOE_W3] = "w3",
    [LAB_MOE_B1] = "b1",
    [LAB_MOE_B2] = "b2",
    [LAB_MOE_B3] = "b3",
    [LAB_MOE_CORRECTION] = "correction",
    [LAB_MOE_MASK] = "mask",
    [LAB_MOE_GIVEN_IDS] = "given_ids",
    [LAB_MOE_GIVEN_WEIGHTS] = "given_weights",
};

/* ---------------------------------------------------------------------- sizes */

/* Accumulates sizes; `fits` is false once one does not. */
typedef struct sizing {
    lab_tensor_size *list;
    bool fits;
} sizing;

/* Outer by rows by columns, columns contiguous. */
static void size_array(sizing *s, int tensor, int64_t outer, int64_t rows, int64_t cols,
                       int64_t outer_stride, int64_t row_stride, size_t element) {
    const int64_t counts[] = {outer, rows}, strides[] = {outer_stride, row_stride};
    lab_tensor_size *size = &s->list[tensor];
    double indices = (double)cols;
    size->present = true;
    size->element_size = element;
    if (outer == 0 || rows == 0 || cols == 0)
        return;
    size->elements = cols;
    for (int i = 0; i < 2; i++) {
        int64_t reach;
        indices *= strides[i] == 0 ? 1.0 : (double)counts[i];
        if (counts[i] > 1)
            s->fits = s->fits && att_mul(counts[i] - 1, strides[i], &reach) &&
                      att_add(size->elements, reach, &size->elements);
    }
    size->touched = indices * (double)element;
}

static void size_flat(sizing *s, int tensor, int64_t count, size_t element) {
    size_array(s, tensor, 1, 1, count, 0, 0, element);
}

static void size_weights(sizing *s, const att_moe_problem *p, int tensor, int64_t outputs,
                         int64_t inputs, const att_moe_strides *strides) {
    const bool transposed = p->flags & ATT_MOE_TRANSPOSED;
    size_array(s, tensor, p->local_experts, transposed ? inputs : outputs,
               transposed ? outputs : inputs, strides->expert, strides->row,
               att_dtype_size(p->dtype));
}

static void size_experts(sizing *s, const att_moe_problem *p) {
    const size_t bias = att_dtype_size(p->dtype_bias);
    const int64_t rows = att_moe_w1_rows(p), local = p->local_experts;
    size_weights(s, p, LAB_MOE_W1, rows, p->hidden, &p->w1);
    size_weights(s, p, LAB_MOE_W2, p->hidden, p->inner, &p->w2);
    if (att_moe_is_apart(p))
        size_weights(s, p, LAB_MOE_W3, p->inner, p->hidden, &p->w3);
    if (p->features & ATT_MOE_BIAS1)
        size_array(s, LAB_MOE_B1, 1, local, rows, 0, p->b1_expert, bias);
    if (p->features & ATT_MOE_BIAS1 && att_moe_is_apart(p))
        size_array(s, LAB_MOE_B3, 1, local, p->inner, 0, p->b3_expert, bias);
    if (p->features & ATT_MOE_BIAS2)
        size_array(s, LAB_MOE_B2, 1, local, p->hidden, 0, p->b2_expert, bias);
}

static void size_routing(sizing *s, const att_moe_problem *p) {
    const int64_t t = p->tokens, k = p->experts_per_token;
    if (p->routing == ATT_MOE_GIVEN) {
        size_array(s, LAB_MOE_GIVEN_IDS, 1, t, k, 0, k, sizeof(int32_t));
        size_array(s, LAB_MOE_GIVEN_WEIGHTS, 1, t, k, 0, k, sizeof(float));
    } else {
        size_array(s, LAB_MOE_LOGITS, 1, t, p->experts, 0, p->logits_row,
                   att_dtype_size(p->dtype_logits));
    }
    if (p->features & ATT_MOE_CORRECTION)
        size_flat(s, LAB_MOE_CORRECTION, p->experts, sizeof(float));
    if (p->features & ATT_MOE_MASK)
        size_flat(s, LAB_MOE_MASK, t, 1);
    if (p->features & ATT_MOE_IDS)
        size_array(s, LAB_MOE_IDS, 1, t, k, 0, k, sizeof(int32_t));
    if (p->features & ATT_MOE_WEIGHTS)
        size_array(s, LAB_MOE_WEIGHTS, 1, t, k, 0, k, sizeof(float));
    if (p->features & ATT_MOE_COUNTS)
        size_flat(s, LAB_MOE_COUNTS, p->experts + 1, sizeof(int32_t));
}

/* Whether the tensor has the caller's alignment; the others are plain arrays. */
static bool is_shifted(int tensor) {
    return tensor == LAB_MOE_Y || tensor == LAB_MOE_X || tensor == LAB_MOE_W1 ||
           tensor == LAB_MOE_W2 || tensor == LAB_MOE_W3;
}

bool lab_moe_sizes(const lab_spec *spec, lab_tensor_size list[LAB_TENSORS_MAX], int *count) {
    const lab_moe_spec *m = &spec->moe;
    const att_moe_problem *p = &m->problem;
    sizing s = {list, true};
    *count = LAB_MOE_TENSORS;
    for (int i = 0; i < *count; i++)
        list[i] = (lab_tensor_size){
            .name = tensor_names[i],
            .output = i <= LAB_MOE_COUNTS,
            .padded = i == LAB_MOE_Y && m->pad > 0,
            .integer = i == LAB_MOE_IDS || i == LAB_MOE_COUNTS || i == LAB_MOE_GIVEN_IDS,
            .sparse = m->far && i >= LAB_MOE_W1 && i <= LAB_MOE_W3,
            .shift = is_shifted(i) ? m->offset : 0};
    size_array(&s, LAB_MOE_Y, 1, p->tokens, p->hidden, 0, p->y_row, att_dtype_size(p->dtype_y));
    size_array(&s, LAB_MOE_X, 1, p->tokens, p->hidden, 0, p->x_row, att_dtype_size(p->dtype));
    size_experts(&s, p);
    size_routing(&s, p);
    return s.fits;
}

/* ------------------------------------------------------------------ addresses */

void lab_moe_point(lab_args *args, const lab_spec *spec, const lab_buffer *b) {
    (void)spec;
    args->moe = (att_moe_args){
        .size = sizeof(att_moe_args),
        .x = b[LAB_MOE_X].data,
        .logits = b[LAB_MOE_LOGITS].data,
        .w1 = b[LAB_MOE_W1].data,
        .w2 = b[LAB_MOE_W2].data,
        .w3 = b[LAB_MOE_W3].data,
        .b1 = b[LAB_MOE_B1].data,
        .b2 = b[LAB_MOE_B2].data,
        .b3 = b[LAB_MOE_B3].data,
        .correction = (const float *)(const void *)b[LAB_MOE_CORRECTION].data,
        .mask = b[LAB_MOE_MASK].data,
        .given_ids = (const int32_t *)(const void *)b[LAB_MOE_GIVEN_IDS].data,
        .given_weights = (const float *)(const void *)b[LAB_MOE_GIVEN_WEIGHTS].data,
        .y = b[LAB_MOE_Y].data,
        .ids = (int32_t *)(void *)b[LAB_MOE_IDS].data,
        .weights = (float *)(void *)b[LAB_MOE_WEIGHTS].data,
        .counts = (int32_t *)(void *)b[LAB_MOE_COUNTS].data,
    };
}

void lab_moe_locate(const lab_args *args, const lab_spec *spec,
                    const void *list[LAB_TENSORS_MAX]) {
    const att_moe_args *a = &args->moe;
    const void *const all[LAB_MOE_TENSORS] = {
        [LAB_MOE_Y] = a->y,
        [LAB_MOE_IDS] = a->ids,
        [LAB_MOE_WEIGHTS] = a->weights,
        [LAB_MOE_COUNTS] = a->counts,
        [LAB_MOE_X] = a->x,
        [LAB_MOE_LOGITS] = a->logits,
        [LAB_MOE_W1] = a->w1,
        [LAB_MOE_W2] = a->w2,
        [LAB_MOE_W3] = a->w3,
        [LAB_MOE_B1] = a->b1,
        [LAB_MOE_B2] = a->b2,
        [LAB_MOE_B3] = a->b3,
        [LAB_MOE_CORRECTION] = a->correction,
        [LAB_MOE_MASK] = a->mask,
        [LAB_MOE_GIVEN_IDS] = a->given_ids,
        [LAB_MOE_GIVEN_WEIGHTS] = a->given_weights,
    };
    (void)spec;
    for (int i = 0; i < LAB_MOE_TENSORS; i++)
        list[i] = all[i];
}

void lab_moe_translate(lab_args *to, const lab_args *from,
                       void *(*map)(const void *context, const void *address),
                       const void *context) {
    const att_moe_args *a = &from->moe;
    att_moe_args moved = *a;
    moved.x = map(context, a->x);
    moved.logits = map(context, a->logits);
    moved.w1 = map(context, a->w1);
    moved.w2 = map(context, a->w2);
    moved.w3 = map(context, a->w3);
    moved.b1 = map(context, a->b1);
    moved.b2 = map(context, a->b2);
    moved.b3 = map(context, a->b3);
    moved.correction = map(context, a->correction);
    moved.mask = map(context, a->mask);
    moved.given_ids = map(context, a->given_ids);
    moved.given_weights = map(context, a->given_weights);
    moved.y = map(context, a->y);
    moved.ids = map(context, a->ids);
    moved.weights = map(context, a->weights);
    moved.counts = map(context, a->counts);
    to->moe = moved;
}
