/* suggest.h: the known word nearest to a misspelt one. */
#ifndef LAB_SUGGEST_H
#define LAB_SUGGEST_H

#include <stddef.h>

typedef struct lab_suggestion {
    const char *word; /* the nearest so far, or NULL */
    size_t distance;
} lab_suggestion;

/* Offer one known word. Only words within a third of the misspelt word's length (at least 2
 * edits) are accepted: a more distant one would mislead. */
void lab_suggest(lab_suggestion *best, const char *misspelt, const char *known);

#endif
