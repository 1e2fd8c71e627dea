/* chosen.h: which problems a kernel is verified and timed on: one answer for attest certify and for the check of what it wrote.
 *
 * The answer needs no device: it follows from the suites, the registry and the limits of the device. */
#ifndef LAB_CHOSEN_H
#define LAB_CHOSEN_H

#include <stdbool.h>

#include "lab/base/message.h"
#include "lab/problem/suite.h"
#include "core/registry.h"

/* The suites that are taken where no others are named; required evidence must be of these. */
#define LAB_CHECKED_GPU "rows, edge, gpu"
#define LAB_CHECKED_CPU "rows, edge"
#define LAB_TIMED_GPU   "certify"
#define LAB_TIMED_CPU   "certify_cpu"

enum { LAB_CHOSEN_SUITES = 2 };

typedef struct lab_suite_set {
    lab_suite checked; /* to verify: every problem that the kernel serves */
    lab_suite
        chosen[LAB_CHOSEN_SUITES]; /* to verify: what it would be chosen for; may be empty */
    lab_suite timed;
    struct lab_choices
        *known; /* what the library chose for them on the device last asked about */
} lab_suite_set;

/* Read the suites for a GPU or a CPU; `checked` and `timed` name others than the usual ones, or are NULL. */
bool lab_suite_set_read(lab_suite_set *set, bool gpu, const char *checked, const char *timed,
                        lab_message *why);
void lab_suite_set_free(lab_suite_set *set);

/* A kernel on a device. */
typedef struct lab_chooser {
    const att_kernel_row *row;
    att_cuda_limits gpu; /* of a GPU kernel */
    bool amx_f32;        /* of a CPU kernel: float32 may go to AMX */
} lab_chooser;

/* Set the limits of a GPU: those of the device file about it, or else what follows from its compute capability. False where
 * there is a file and it contradicts the numbers. */
bool lab_chooser_set_gpu(lab_chooser *chooser, const char *gpu_name, int cc, int sms);

/* Does the environment let float32 go to AMX? */
bool lab_chooser_amx_f32(void);

/* Does the kernel merge what others leave, read a mask for them, or do another step of theirs? It is never planned by itself: problems of others stand for it. */
bool lab_row_helps(const att_kernel_row *row);

/* Has this library code of the kernel for that device, or the means to make some? Without it no problem is one for the kernel. */
bool lab_chooser_could_run(const lab_chooser *chooser);

/* Would the kernel serve the problem with no other kernel allowed? */
bool lab_chooser_serves(const lab_chooser *chooser, const lab_spec *spec);

/* The kernel that the library would choose among those up to the instruction set of this one, evidence or not; NULL: none. */
const att_kernel_row *lab_chooser_choice(const lab_chooser *chooser, const lab_spec *spec);

/* Is the problem one for this kernel: chosen for it, or, of one that helps others, chosen for a kernel that it helps? Whether
 * there is anything to do for it, parts to merge above all, is then for the plan to say. */
bool lab_chooser_chosen(const lab_chooser *chooser, const lab_spec *spec);

/* The next problem to verify at or after *at, which counts over all suites of the set; NULL after the last. */
const lab_spec *lab_chooser_next_checked(const lab_chooser *chooser, const lab_suite_set *set,
                                         size_t *at);

/* The problems to time, into `list`, which has room for all of set->timed: those it would be chosen for, or else up to two that
 * it serves. Returns how many they are. */
size_t lab_chooser_timed(const lab_chooser *chooser, const lab_suite_set *set,
                         const lab_spec **list);

#endif
