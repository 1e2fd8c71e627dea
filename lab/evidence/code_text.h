/* code_text.h: source text without what does not run: comments, layout, joined lines. */
#ifndef LAB_CODE_TEXT_H
#define LAB_CODE_TEXT_H

#include <stddef.h>

/* Normalise C or CUDA text in place; returns its new length. Comments become blanks, lines that a backslash joins are
 * joined, runs of blanks shrink to one and vanish beside brackets, commas and semicolons. Directives keep a line of their own, and
 * their blanks: `#define F (x)` is not `#define F(x)`. Strings stay as they are. */
size_t lab_text_normalise(char *text, size_t size);

/* The name in the next #include "..." of a normalised text from *at on; *at moves behind it. False where there is none.
 * A name that does not fit `n` bytes is cut. */
int lab_text_next_include(const char *text, size_t size, size_t *at, char *name, size_t n);

#endif
