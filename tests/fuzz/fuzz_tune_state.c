/* fuzz_tune_state.c: the record of a search, from which a later search resumes. */
#include <stdlib.h>
#include <string.h>

#include "lab/tune/tune.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

static lab_spec spec;

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    return mutate_json(data, size, most, seed);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    lab_message why;
    if (!lab_spec_parse(&spec, "b4h8s1024d64", &why))
        finding("%s", why.text);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_tuning tuning;
    lab_message why;
    memset(&tuning, 0, sizeof tuning);
    memset(&why, 0, sizeof why);
    tuning.base = (lab_base){.spec = &spec,
                             .id = "fwd_sm80_f16_d64_m128n64s2",
                             .source = "fwd_sm80",
                             .source_sha256 = "0",
                             .switches = {"SWIZZLE", "PREFETCH"},
                             .switch_count = 2};
    tuning.options.state = input_file(0, data, size);
    tuning.options.population = 8;
    if (!lab_tune_state_read(&tuning, &why))
        check_message(&why);
    free(tuning.trials);
    return 0;
}
