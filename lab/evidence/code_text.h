/* code_text.h: source text without comments, layout and line continuations. */
#ifndef LAB_CODE_TEXT_H
#define LAB_CODE_TEXT_H

#include <stddef.h>

/* Normalise C or CUDA text in place; returns its new length. Comments become spaces, lines
 * continued with a backslash are joined, and whitespace shrinks to one space and vanishes
 * beside brackets, commas and semicolons. Directives keep their own line and their spaces:
 * `#define F (x)` is not `#define F(x)`. Strings stay unchanged. */
size_t lab_text_normalise(char *text, size_t size);

/* The name in the next #include "..." of a normalised text from *at on; *at moves past it.
 * False if there is none. A name that does not fit in `n` bytes is truncated. */
int lab_text_next_include(const char *text, size_t size, size_t *at, char *name, size_t n);

#endif
