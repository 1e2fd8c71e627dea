/* fuzz_suite.c: suites: files of problems, one per line. */
#include <string.h>

#include "lab/problem/suite.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_suite suite;
    lab_message why;
    memset(&why, 0, sizeof why);
    if (!lab_suite_read(&suite, input_file(0, data, size), &why)) {
        check_message(&why);
        return 0;
    }
    char line[LAB_SPEC_MAX];
    for (size_t i = 0; i < suite.count; i++)
        lab_spec_print(&suite.specs[i], line, sizeof line);
    lab_suite_free(&suite);
    return 0;
}
