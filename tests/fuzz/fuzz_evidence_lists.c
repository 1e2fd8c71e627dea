/* fuzz_evidence_lists.c: required.txt and harnesses.txt of a folder of evidence. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/evidence/evidence_files.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

/* A folder whose two lists are the input. */
static const char *folder;
static char required[96], clocks[96];

static void remove_folder(void) {
    unlink(required);
    unlink(clocks);
    rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    folder = input_folder();
    snprintf(required, sizeof required, "%s/required.txt", folder);
    snprintf(clocks, sizeof clocks, "%s/harnesses.txt", folder);
    const char *path = input_file(0, (const uint8_t *)"", 0);
    if (symlink(path, required) != 0 || symlink(path, clocks) != 0)
        finding("no links in %s", folder);
    atexit(remove_folder);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_evidence evidence = {.count = 0};
    lab_message why;
    input_file(0, data, size);
    memset(&why, 0, sizeof why);
    if (!lab_evidence_find(&evidence, folder, &why))
        finding("the folder is gone");
    if (!lab_evidence_read_required(&evidence, &why))
        check_message(&why);
    memset(&why, 0, sizeof why);
    if (!lab_evidence_read_clocks(&evidence, &why))
        check_message(&why);
    lab_evidence_free(&evidence);
    return 0;
}
