/* fuzz_call_costs.c: samples of calls from Python, of training steps and of whole models,
 * judged. */
#include <string.h>

#include "lab/base/json_load.h"
#include "lab/report/call_costs.h"
#include "lab/report/model_speeds.h"
#include "lab/report/training_steps.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    return mutate_json(data, size, most, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *goals = NULL;
    lab_message why;
    bool holds = false;
    memset(&why, 0, sizeof why);
    const char *path = input_file(0, data, size);
    json_t *document = lab_json_load(path, &why);
    const char *schema = json_string_value(json_object_get(document, "schema"));
    bool judged = document != NULL;
    if (schema && lab_call_costs_schema(schema))
        judged = lab_call_costs_judge(nowhere(), document, "input", &goals, &holds, &why);
    else if (schema && lab_training_steps_schema(schema))
        judged = lab_training_steps_judge(nowhere(), document, "input", &goals, &holds, &why);
    else if (schema && lab_model_speeds_schema(schema))
        judged = lab_model_speeds_judge(nowhere(), document, "input", &goals, &holds, &why);
    if (!judged)
        check_message(&why);
    json_decref(goals);
    json_decref(document);
    return 0;
}
