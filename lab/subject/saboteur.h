/* saboteur.h: subjects that cheat, each in one way, to see whether the harness notices.
 *
 * Each is an honest plan of the library with something done to it, on the CPU or on a GPU; none knows anything
 * of the harness but what any subject is handed. Most spoil any operation, a few attention alone. Two are honest, and must pass. */
#ifndef LAB_SABOTEUR_H
#define LAB_SABOTEUR_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/subject/subject.h"

typedef struct lab_saboteur lab_saboteur;

/* What a saboteur has to be played on. */
typedef enum lab_stage {
    LAB_STAGE_PLAIN, /* of attention: rows and keys differ, causal; float16 */
    LAB_STAGE_RIVAL, /* it has a direct call: memory must decide */
    LAB_STAGE_SHORT, /* a sample has many calls on the same inputs */
    LAB_STAGE_HEADS, /* of attention: many heads, no mask */
    LAB_STAGES
} lab_stage;

extern const size_t lab_saboteur_count;

const lab_saboteur *lab_saboteur_at(size_t i);
const char *lab_saboteur_name(const lab_saboteur *saboteur);
const char *lab_saboteur_deed(const lab_saboteur *saboteur); /* what it does, one line */
bool lab_saboteur_honest(const lab_saboteur *saboteur);
lab_stage lab_saboteur_stage(const lab_saboteur *saboteur);
bool lab_saboteur_plays(const lab_saboteur *saboteur, att_device device);
const lab_operation *
lab_saboteur_operation(const lab_saboteur *saboteur); /* its own; NULL: any */
bool lab_saboteur_idle(const lab_saboteur *saboteur,
                       const lab_spec *spec); /* its deed changes nothing in that problem */

/* The saboteur on the context, which must outlive it. */
lab_subject lab_saboteur_subject(const lab_saboteur *saboteur, att_context *ctx);

#endif
