/* fuzz_code_text.c: source text without comments and layout: normalising it again changes
 * nothing. */
#include <stdlib.h>
#include <string.h>

#include "lab/evidence/code_text.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size ? size : 1), name[64];
    if (!text)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    const size_t length = lab_text_normalise(text, size);
    if (length > size)
        finding("%zu bytes became %zu", size, length);
    size_t at = 0;
    while (lab_text_next_include(text, length, &at, name, sizeof name))
        if (at > length || !memchr(name, 0, sizeof name))
            finding("an include past the end");
    free(text);
    return 0;
}
