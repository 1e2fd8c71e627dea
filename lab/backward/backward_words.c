/* backward_words.c: the words of backward problems: those of attention, and those of
 * gradients. */
#include "lab/backward/backward_lab.h"

#include <stdio.h>
#include <string.h>

#include "lab/problem/spec_names.h"
#include "lab/problem/spec_values.h"

void lab_backward_init(lab_spec *spec) {
    lab_attention_init(spec);
    spec->operation = &lab_operation_backward;
}

#define HANDLER(word)                                                                          \
    static bool set_##word(lab_spec *spec, const char *name, const char *value,                \
                           lab_message *why)

HANDLER(dtype_grad) {
    int dtype = 0;
    if (!lab_set_named(name, value, lab_dtype_names, &dtype, why))
        return false;
    spec->dtype_grad = (att_dtype)dtype;
    return true;
}

HANDLER(d_bias) {
    spec->problem.gradients |= ATT_D_BIAS;
    return lab_set_flag(name, value, why);
}

HANDLER(d_sinks) {
    spec->problem.gradients |= ATT_D_SINKS;
    return lab_set_flag(name, value, why);
}

HANDLER(d_alibi) {
    spec->problem.gradients |= ATT_D_ALIBI;
    return lab_set_flag(name, value, why);
}

HANDLER(d_o) {
    int data = 0;
    if (!lab_set_named(name, value, lab_d_o_names, &data, why))
        return false;
    spec->d_o = (lab_d_o)data;
    return true;
}

const lab_modifier lab_backward_modifiers[] = {
    {"grad", set_dtype_grad, false}, {"dbias", set_d_bias, false},
    {"dsinks", set_d_sinks, false},  {"dalibi", set_d_alibi, false},
    {"do", set_d_o, false},          {NULL, NULL, false},
};

bool lab_backward_finish(lab_spec *spec, lab_message *why) {
    spec->problem.features |= ATT_LSE;
    return lab_attention_finish(spec, why);
}

void lab_backward_print(const lab_spec *spec, char *buf, size_t n) {
    const att_problem *p = &spec->problem;
    lab_spec forward = *spec;
    forward.problem.features &= ~(unsigned)ATT_LSE; /* always present: not printed */
    lab_attention_print(&forward, buf, n);
    char grad[16] = "", d_o[16] = "";
    if (spec->dtype_grad && spec->dtype_grad != p->dtype)
        snprintf(grad, sizeof grad, ",grad=%s",
                 lab_name_of(lab_dtype_names, (int)spec->dtype_grad));
    if (spec->d_o != LAB_D_O_NORMAL)
        snprintf(d_o, sizeof d_o, ",do=%s", lab_name_of(lab_d_o_names, (int)spec->d_o));
    const size_t used = strlen(buf);
    snprintf(buf + used, n - used, "%s%s%s%s%s", grad,
             p->gradients & ATT_D_BIAS ? ",dbias" : "",
             p->gradients & ATT_D_SINKS ? ",dsinks" : "",
             p->gradients & ATT_D_ALIBI ? ",dalibi" : "", d_o);
}
