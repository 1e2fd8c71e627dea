/* fuzz_device.c: device files, and the plan of a problem on the device that they describe. */
#include <string.h>

#include "lab/plan/plan_result.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    return mutate_json(data, size, most, seed);
}

static void plan(const lab_device *device, const char *line) {
    lab_spec spec;
    lab_plan_result result;
    lab_message why;
    memset(&why, 0, sizeof why);
    if (!lab_spec_parse(&spec, line, &why))
        finding("%s: %s", line, why.text);
    if (!lab_plan_make(&result, &spec, device, NULL, &why)) {
        check_message(&why);
        return;
    }
    if (!(lab_floor_seconds(&result.floor) >= 0.0))
        finding("%s takes at least %g seconds", line, lab_floor_seconds(&result.floor));
    json_decref(lab_plan_object(&result, &spec));
    lab_plan_free(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_device device;
    lab_message why;
    memset(&why, 0, sizeof why);
    if (!lab_device_read(&device, input_file(0, data, size), &why)) {
        check_message(&why);
        return 0;
    }
    json_decref(lab_plan_device_object(&device));
    plan(&device, "b2h8s512d64,causal");
    plan(&device, "b4h32hkv8s1sk4096d128,bf16");
    return 0;
}
