/* fuzz_results.c: result files of attest bench, read and compared with themselves. */
#include <string.h>

#include "lab/measure/comparison.h"
#include "lab/measure/results.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    return mutate_json(data, size, most, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_results results;
    lab_comparison comparison;
    lab_message why;
    memset(&why, 0, sizeof why);
    if (!lab_results_read(&results, input_file(0, data, size), &why)) {
        check_message(&why);
        return 0;
    }
    if (lab_compare(&comparison, &results, &results, ~0u, 0.01, 1, &why)) {
        json_decref(lab_json_comparison(&comparison));
        if (comparison.of[LAB_SLOWER] || comparison.of[LAB_FASTER])
            finding("a file is faster or slower than itself");
        lab_comparison_free(&comparison);
    } else {
        check_message(&why);
    }
    lab_results_free(&results);
    return 0;
}
