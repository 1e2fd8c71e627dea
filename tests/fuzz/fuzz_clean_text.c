/* fuzz_clean_text.c: text on its way to a terminal and to a page: no control code and no markup
 * gets through. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/clean_text.h"
#include "lab/base/markup.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

static void check_clean(const char *text, size_t length, bool lines) {
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool kept = lines && (c == '\n' || c == '\t');
        const bool control = c < ' ' || c == 0x7f;
        const bool second = c == 0xc2 && i + 1 < length && (unsigned char)text[i + 1] < 0xa0;
        if ((control && !kept) || second)
            finding("byte %zu of a clean text is %02x", i, c);
    }
}

static void check_stream(const uint8_t *data, size_t size) {
    char *out = NULL;
    size_t length = 0;
    FILE *under = open_memstream(&out, &length),
         *stream = under ? lab_clean_stream(under) : NULL;
    if (!stream)
        abort();
    fwrite(data, 1, size / 2, stream); /* in two parts: a character may be split */
    fflush(stream);
    fwrite(data + size / 2, 1, size - size / 2, stream);
    fclose(stream);
    fclose(under);
    check_clean(out, length, true);
    free(out);
}

/* In an element or an attribute: no byte that ends either; in a Markdown table: no line
 * break. */
static void check_markup(const char *text) {
    char *out = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&out, &length);
    if (!stream)
        abort();
    lab_markup_text(stream, text);
    fflush(stream);
    if (strpbrk(out, "<>\""))
        finding("markup in %s", out);
    const size_t before = length;
    lab_markup_code(stream, text);
    fclose(stream);
    if (strchr(out + before, '\n'))
        finding("a line feed in a cell");
    free(out);
}

static void check_plain(const char *text) {
    char buf[48];
    lab_plain_text(buf, sizeof buf, text, 20);
    if (!memchr(buf, 0, sizeof buf))
        finding("a plain text without an end");
    check_clean(buf, strlen(buf), false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = input_text(data, size);
    const size_t before = strlen(text);
    check_markup(text);
    check_plain(text);
    lab_clean_line(text);
    if (strlen(text) > before)
        finding("a clean text is longer");
    check_clean(text, strlen(text), false);
    free(text);
    check_stream(data, size);
    return 0;
}
