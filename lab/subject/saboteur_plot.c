/* saboteur_plot.c: the tensors of a call of any operation: found, hashed, kept, copied. */
#include "lab/subject/saboteur_plot.h"

#include <math.h>

#include "base/dtype.h"
#include "lab/tensors/buffer.h"

void lab_plot_look(lab_plot *p, const lab_args *args) {
    const void *at[LAB_TENSORS_MAX];
    p->spec.operation->locate(args, &p->spec, at);
    p->inputs = p->outputs = 0;
    for (int i = 0; i < p->size_count; i++) {
        const lab_tensor_size *size = &p->size[i];
        if (!size->present || !at[i] || (size->output && p->outputs == LAB_OUTPUTS_MAX))
            continue;
        *(size->output ? &p->output[p->outputs++] : &p->input[p->inputs++]) =
            (lab_plot_tensor){.data = (unsigned char *)(uintptr_t)at[i],
                              .bytes = (size_t)size->elements * size->element_size,
                              .element = size->element_size,
                              .integer = size->integer};
    }
}

bool lab_plot_is_finished(const lab_plot *p) {
    const lab_outputs outputs = p->spec.operation->outputs(&p->spec);
    return isfinite(att_load(p->output[0].data, outputs.list[0].dtype, 0));
}

uint64_t lab_plot_hash_inputs(const lab_plot *p) {
    uint64_t hash = 1;
    for (int i = 0; i < p->inputs; i++)
        hash = lab_hash(hash, p->input[i].data, p->input[i].bytes);
    return hash;
}

lab_kept_answer *lab_plot_place(lab_plot *p, uint64_t inputs) {
    for (size_t i = 0; i < p->kept_count; i++)
        if (p->kept[i].inputs == inputs)
            return &p->kept[i];
    lab_kept_answer *k = p->kept_count < LAB_KEPT_MOST
                             ? &p->kept[p->kept_count++]
                             : &p->kept[(size_t)p->calls % LAB_KEPT_MOST];
    k->inputs = inputs;
    k->sights = 0;
    return k;
}

static bool has_room(lab_plot *p, lab_kept_answer *k) {
    for (int i = 0; i < p->outputs; i++) {
        if (!k->copy[i])
            k->copy[i] = lab_hands_take(&p->hands, p->output[i].bytes);
        if (!k->copy[i])
            return false;
    }
    return true;
}

bool lab_plot_keep(lab_plot *p, lab_kept_answer *k, void *stream) {
    bool ok = has_room(p, k);
    for (int i = 0; ok && i < p->outputs; i++)
        ok = lab_hands_copy(&p->hands, k->copy[i], p->output[i].data, p->output[i].bytes,
                            stream);
    return ok;
}

bool lab_plot_hand_out(lab_plot *p, lab_kept_answer *k, void *stream) {
    bool ok = has_room(p, k);
    for (int i = 0; ok && i < p->outputs; i++)
        ok = lab_hands_copy(&p->hands, p->output[i].data, k->copy[i], p->output[i].bytes,
                            stream);
    return ok;
}

/* The same offset in the copy of the input that contains the address; the address of an output
 * is unchanged. */
static void *copy_of(const void *context, const void *address) {
    const lab_plot *p = context;
    const uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < p->inputs; i++) {
        const uintptr_t first = (uintptr_t)p->input[i].data;
        if (at >= first && at < first + p->input[i].bytes)
            return (unsigned char *)p->scratch[i] + (at - first);
    }
    return (void *)at;
}

bool lab_plot_copy_inputs(lab_plot *p, lab_args *copied, const lab_args *args, void *stream) {
    for (int i = 0; i < p->inputs; i++) {
        const lab_plot_tensor *t = &p->input[i];
        if (!p->scratch[i])
            p->scratch[i] = lab_hands_take(&p->hands, t->bytes);
        if (!p->scratch[i] ||
            !lab_hands_copy(&p->hands, p->scratch[i], t->data, t->bytes, stream))
            return false;
    }
    p->spec.operation->translate(copied, args, copy_of, p);
    return true;
}
