/* closure.h: the digest of a source and of everything that it includes, without comments and
 * layout. */
#ifndef LAB_CLOSURE_H
#define LAB_CLOSURE_H

#include <stddef.h>

#include "base/sha256.h"
#include "lab/base/message.h"

enum { LAB_CLOSURE_MOST = 512 };

/* The source of texts: returns a copy of the text of that name, for free(); NULL if there is
 * none. */
typedef char *(*lab_text_source)(const char *name, size_t *size);

/* Texts are added in the order in which a compiler meets them, each once. An #include "..."
 * that the source does not know is skipped, like system headers. */
typedef struct lab_closure {
    lab_text_source source;
    att_sha256 sha;
    char *names[LAB_CLOSURE_MOST];
    size_t count;
} lab_closure;

void lab_closure_begin(lab_closure *closure, lab_text_source source);

/* Add the text of that name with everything that it includes. */
bool lab_closure_add(lab_closure *closure, const char *name, lab_message *why);

/* Add `flags` and return the digest. Frees the contents of the closure. */
void lab_closure_end(lab_closure *closure, const char *flags, char hex[ATT_SHA256_HEX]);

#endif
