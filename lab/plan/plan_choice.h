/* plan_choice.h: which kernel the library would choose on a GPU that is not here, and why not the others. */
#ifndef LAB_PLAN_CHOICE_H
#define LAB_PLAN_CHOICE_H

#include "attest.h"
#include "lab/plan/plan_device.h"
#include "lab/problem/spec.h"

/* What a context on that GPU would be asked for. */
typedef struct lab_choice_options {
    const char *kernel; /* an id, or a prefix with *; NULL: any */
    bool allow_slow, allow_unattested;
} lab_choice_options;

/* The explanation into `buf`, as att_context_explain() gives it on such a GPU, except for how the work is divided, which
 * takes the loaded code. *chosen is the kernel's id, or NULL. Returns ATT_OK, ATT_E_UNSUPPORTED where no kernel serves the
 * problem (`buf` says why), or what is wrong with the problem or the options; att_last_error() has the text. */
att_status lab_choice_explain(const char **chosen, const lab_device *device,
                              const lab_spec *spec, const lab_choice_options *options,
                              char *buf, size_t n);

#endif
