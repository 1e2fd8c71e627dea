/* closure.c: follows the includes. */
#include "lab/evidence/closure.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lab/evidence/code_text.h"

void lab_closure_begin(lab_closure *closure, lab_text_source source) {
    *closure = (lab_closure){.source = source};
    att_sha256_begin(&closure->sha);
}

/* Hash the length first, in a fixed byte order, so that different lists of texts never give the
 * same bytes. */
static void add_counted(att_sha256 *sha, const char *text, size_t size) {
    unsigned char count[8];
    for (int i = 0; i < 8; i++)
        count[i] = (unsigned char)((uint64_t)size >> (8 * i));
    att_sha256_add(sha, count, sizeof count);
    att_sha256_add(sha, text, size);
}

static bool is_known(const lab_closure *closure, const char *name) {
    for (size_t i = 0; i < closure->count; i++)
        if (strcmp(closure->names[i], name) == 0)
            return true;
    return false;
}

static bool add_text(lab_closure *closure, const char *name, char *text, size_t size,
                     lab_message *why) {
    char *kept = closure->count < LAB_CLOSURE_MOST ? strdup(name) : NULL;
    if (!kept)
        return lab_fail(why, "%s: more files than a closure holds, or no memory", name);
    closure->names[closure->count++] = kept;
    size = lab_text_normalise(text, size);
    char included[256];
    for (size_t at = 0; lab_text_next_include(text, size, &at, included, sizeof included);) {
        size_t bytes;
        if (is_known(closure, included))
            continue;
        char *inner = closure->source(included, &bytes);
        const bool ok = !inner || add_text(closure, included, inner, bytes, why);
        free(inner);
        if (!ok)
            return false;
    }
    add_counted(&closure->sha, text, size);
    return true;
}

bool lab_closure_add(lab_closure *closure, const char *name, lab_message *why) {
    size_t size;
    if (is_known(closure, name))
        return true;
    char *text = closure->source(name, &size);
    if (!text)
        return lab_fail(why, "%s: there is no such source", name);
    const bool ok = add_text(closure, name, text, size, why);
    free(text);
    return ok;
}

void lab_closure_free(lab_closure *closure) {
    for (size_t i = 0; i < closure->count; i++)
        free(closure->names[i]);
    closure->count = 0;
}

void lab_closure_digest(const att_sha256 *texts, const char *flags, char hex[ATT_SHA256_HEX]) {
    att_sha256 sha = *texts;
    add_counted(&sha, flags, strlen(flags));
    att_sha256_end(&sha, hex);
}
