/* chosen.h: which problems a kernel is verified and timed on. attest certify and the check of
 * its statements share this answer.
 *
 * The answer needs no device: it follows from the suites, the registry and the limits of the
 * device. */
#ifndef LAB_CHOSEN_H
#define LAB_CHOSEN_H

#include <stdbool.h>

#include "lab/base/message.h"
#include "lab/problem/suite.h"
#include "core/registry.h"

/* The default suites; required evidence must be based on these. */
#define LAB_CHECKED_GPU "rows, edge, gpu"
#define LAB_CHECKED_CPU "rows, edge"
#define LAB_TIMED_GPU   "certify"
#define LAB_TIMED_CPU   "certify_cpu"

enum { LAB_CHOSEN_SUITES = 2 };

typedef struct lab_suite_set {
    lab_suite checked; /* to verify: every problem that the kernel supports */
    lab_suite
        chosen[LAB_CHOSEN_SUITES]; /* to verify: problems that it would be chosen for; may be
                                    * empty */
    lab_suite timed;
    struct lab_choices
        *known; /* the library's choices for them on the device last asked about */
} lab_suite_set;

/* Read the suites for a GPU or a CPU; `checked` and `timed` name other suites than the usual
 * ones, or are NULL. */
bool lab_suite_set_read(lab_suite_set *set, bool gpu, const char *checked, const char *timed,
                        lab_message *why);
void lab_suite_set_free(lab_suite_set *set);

/* A kernel on a device. */
typedef struct lab_chooser {
    const att_kernel_row *row;
    att_cuda_limits gpu; /* of a GPU kernel */
    bool amx_f32;        /* of a CPU kernel: float32 may use AMX */
} lab_chooser;

/* Set the limits of a GPU: those of its device file, or otherwise those implied by its compute
 * capability. False if there is a file and it contradicts the numbers. */
bool lab_chooser_set_gpu(lab_chooser *chooser, const char *gpu_name, int cc, int sms);

/* Whether the environment lets float32 use AMX. */
bool lab_chooser_amx_f32(void);

/* Whether the kernel merges the results of others, reads a mask for them, or does another step
 * for them. It is never planned on its own: it is tested through problems of others. */
bool lab_row_helps(const att_kernel_row *row);

/* Whether this library has code for the kernel on that device, or can make it. Without code no
 * problem is one for the kernel. */
bool lab_chooser_could_run(const lab_chooser *chooser);

/* Whether the kernel would support the problem with no other kernel allowed. */
bool lab_chooser_serves(const lab_chooser *chooser, const lab_spec *spec);

/* The kernel that the library would choose among those up to the instruction set of this one,
 * with or without evidence; NULL: none. */
const att_kernel_row *lab_chooser_choice(const lab_chooser *chooser, const lab_spec *spec);

/* Whether the problem is one for this kernel: the library chooses the kernel, or, if it helps
 * others, a kernel that it helps. The plan then tells whether it has anything to do, such as
 * parts to merge. */
bool lab_chooser_chosen(const lab_chooser *chooser, const lab_spec *spec);

/* The next problem to verify at or after *at, which counts over all suites of the set; NULL
 * after the last. */
const lab_spec *lab_chooser_next_checked(const lab_chooser *chooser, const lab_suite_set *set,
                                         size_t *at);

/* Collect the problems to time in `list`, which has room for all of set->timed: those it would
 * be chosen for, or otherwise up to two that it supports. Returns their number. */
size_t lab_chooser_timed(const lab_chooser *chooser, const lab_suite_set *set,
                         const lab_spec **list);

#endif
