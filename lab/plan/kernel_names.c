/* kernel_names.c: ids from the library's own list. */
#include "lab/plan/kernel_names.h"

#include <string.h>

#include "core/registry.h"
#include "lab/base/suggest.h"

const char *lab_nearest_kernel(const char *misspelt) {
    lab_suggestion best = {0};
    for (size_t i = 0; i < att_registry_count(); i++) {
        const char *id = att_registry_row(i)->id;
        if (strcmp(id, misspelt) == 0)
            return NULL;
        lab_suggest(&best, misspelt, id);
    }
    return best.word;
}
