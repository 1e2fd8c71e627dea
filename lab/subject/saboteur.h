/* saboteur.h: subjects that cheat, each in one way, to test whether the harness notices.
 *
 * Each is an honest plan of the library with something added, on the CPU or on a GPU. None
 * knows more about the harness than any subject does. Most work with any operation, a few only
 * with attention. Two are honest and must pass. */
#ifndef LAB_SABOTEUR_H
#define LAB_SABOTEUR_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/subject/subject.h"

typedef struct lab_saboteur lab_saboteur;

/* The kind of problem that a saboteur needs. */
typedef enum lab_stage {
    LAB_STAGE_PLAIN, /* for attention: rows and keys differ, causal; float16 */
    LAB_STAGE_RIVAL, /* it has a direct call: only the check for remembered answers can find
                      * it */
    LAB_STAGE_SHORT, /* a sample has many calls on the same inputs */
    LAB_STAGE_HEADS, /* for attention: many heads, no mask */
    LAB_STAGES
} lab_stage;

extern const size_t lab_saboteur_count;

const lab_saboteur *lab_saboteur_at(size_t i);
const char *lab_saboteur_name(const lab_saboteur *saboteur);
const char *lab_saboteur_deed(const lab_saboteur *saboteur); /* one line that says what it
                                                              * does */
bool lab_saboteur_honest(const lab_saboteur *saboteur);
lab_stage lab_saboteur_stage(const lab_saboteur *saboteur);
bool lab_saboteur_plays(const lab_saboteur *saboteur, att_device device);
const lab_operation *
lab_saboteur_operation(const lab_saboteur *saboteur); /* its own; NULL: any */
bool lab_saboteur_idle(const lab_saboteur *saboteur,
                       const lab_spec *spec); /* it has no effect on that problem */

/* The saboteur on the context, which must outlive it. */
lab_subject lab_saboteur_subject(const lab_saboteur *saboteur, att_context *ctx);

#endif
