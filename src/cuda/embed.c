/* embed.c: looks up entries in the tables that the build generates. */
#include "cuda/embed.h"

#include <string.h>

#include "cuda/row.h"

const att_embedded_code *att_embedded_code_find(const char *id, int cc) {
    for (const att_embedded_code *code = att_embedded_codes; code->id; code++)
        if (code->cc == att_cuda_code_cc(cc) && strcmp(code->id, id) == 0)
            return code;
    return NULL;
}

const att_embedded_text *att_embedded_text_find(const char *name) {
    for (const att_embedded_text *text = att_embedded_texts; text->name; text++)
        if (strcmp(text->name, name) == 0)
            return text;
    return NULL;
}
