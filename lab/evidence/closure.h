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

/* The digest of texts, which are a closure's `sha`, and of `flags`. The same texts may be used
 * with several flags. */
void lab_closure_digest(const att_sha256 *texts, const char *flags, char hex[ATT_SHA256_HEX]);

/* Free what the closure holds; its `sha` remains. */
void lab_closure_free(lab_closure *closure);

#endif
