/* switches.h: the optimisation switches of the kernels, as kernels/switches.def lists them. */
#ifndef ATT_SELECT_SWITCHES_H
#define ATT_SELECT_SWITCHES_H

#include <stddef.h>

struct att_family;

typedef struct att_switch {
    const struct att_family *family; /* of its source */
    const char *source;              /* kernels/<source>.cu */
    const char *name;                /* the macro is USE_<name> */
    const char *text;                /* what it does; what is used instead without it */
} att_switch;

enum { ATT_SWITCHES_MAX = 32 }; /* per source: one bit each */

/* The i-th switch of all, NULL past the last. Thread: safe. */
const att_switch *att_switch_at(size_t i);

/* The i-th switch of the family's source, NULL past the last. Thread: safe. */
const att_switch *att_switch_of(const struct att_family *family, size_t i);

/* The number of switches of the family's source. */
size_t att_switch_count(const struct att_family *family);

#endif
