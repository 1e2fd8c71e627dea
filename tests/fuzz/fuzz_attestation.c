/* fuzz_attestation.c: statements about kernels, and about the tests of the host code. */
#include <stdlib.h>
#include <string.h>

#include "lab/evidence/attestation.h"
#include "lab/evidence/host_tests.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

static lab_suite_set usual[2];

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    return mutate_json(data, size, most, seed);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    lab_message why;
    if (!lab_suite_set_read(&usual[0], false, NULL, NULL, &why) ||
        !lab_suite_set_read(&usual[1], true, NULL, NULL, &why))
        finding("the suites: %s (ATTEST_SUITES names their folder)", why.text);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_attestation attestation;
    lab_message why;
    const char *path = input_file(0, data, size);
    memset(&why, 0, sizeof why);
    if (!lab_attestation_read(&attestation, path, usual, NULL, &why))
        check_message(&why);
    memset(&why, 0, sizeof why);
    if (lab_host_tests_judge(path, "h200", &why) == LAB_HOST_BROKEN)
        check_message(&why);
    return 0;
}
