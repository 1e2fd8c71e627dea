/* characters.h: the characters of untrusted text. */
#ifndef LAB_CHARACTERS_H
#define LAB_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LAB_REPLACEMENT = 0xfffd };

/* The next character of UTF-8 text and its length in bytes; a broken sequence is one byte,
 * U+FFFD. */
uint32_t lab_next_character(const char *text, size_t *length);

/* Control codes, marks that reorder text or are invisible, and code points that are not
 * characters. */
bool lab_is_harmful(uint32_t code);

#endif
