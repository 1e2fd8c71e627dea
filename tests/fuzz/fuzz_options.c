/* fuzz_options.c: command lines of every verb, and lists of refusals. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/refusals.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

enum { WORDS_MOST = 32 };

/* Words separated by line feeds; returns their number. */
static int split(char *text, char *words[WORDS_MOST]) {
    int count = 0;
    for (char *at = text; at && count < WORDS_MOST - 1; count++) {
        words[count] = at;
        at = strchr(at, '\n');
        if (at)
            *at++ = '\0';
    }
    words[count] = NULL;
    return count;
}

static void read_refusals(const uint8_t *data, size_t size) {
    cli_options options;
    cli_refusals refusals;
    memset(&options, 0, sizeof options);
    options.verb = "verify";
    options.refusals = input_file(0, data, size);
    if (!cli_refusals_read(&refusals, &options))
        finding("a list of refusals is refused");
    cli_refusals_free(&refusals);
}

static void read_options(const uint8_t *data, size_t size) {
    char *text = input_text(data, size), *words[WORDS_MOST];
    const int count = split(text, words);
    const cli_verb *verb = cli_find_verb(words[0]);
    if (verb) {
        cli_options options;
        cli_options_read(&options, "attest", verb->name, verb->bit, count - 1, words + 1);
        cli_options_free(&options);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    FILE *before = stderr;
    stderr = nowhere(); /* errors are printed there */
    if (size > 0 && data[0] == '#')
        read_refusals(data, size);
    else
        read_options(data, size);
    stderr = before;
    return 0;
}
