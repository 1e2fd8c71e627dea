/* plan_choice.h: which kernel the library would choose on a GPU that is not present, and why
 * not the others. */
#ifndef LAB_PLAN_CHOICE_H
#define LAB_PLAN_CHOICE_H

#include "attest.h"
#include "lab/plan/plan_device.h"
#include "lab/problem/spec.h"

/* The options of a context on that GPU. */
typedef struct lab_choice_options {
    const char *kernel; /* an id, or a prefix with *; NULL: any */
    bool allow_slow, allow_unattested;
} lab_choice_options;

/* Write the explanation into `buf`, like att_context_explain() on such a GPU, except for how
 * the work is divided, which needs the loaded code. *chosen is the kernel's id, or NULL.
 * Returns ATT_OK; ATT_E_UNSUPPORTED if no kernel supports the problem (`buf` says why); or the
 * error in the problem or the options, with the text in att_last_error(). */
att_status lab_choice_explain(const char **chosen, const lab_device *device,
                              const lab_spec *spec, const lab_choice_options *options,
                              char *buf, size_t n);

#endif
