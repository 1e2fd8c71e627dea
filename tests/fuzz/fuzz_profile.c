/* fuzz_profile.c: CSV output of ncu, and profiles saved as JSON. */
#include <stdlib.h>
#include <string.h>

#include "lab/profile/profile.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

static void look(const lab_profile *profile) {
    char text[512];
    json_decref(lab_profile_json(profile));
    for (size_t i = 0; lab_profile_kernel(profile, i); i++) {
        lab_profile_bottleneck(lab_profile_kernel(profile, i), text, sizeof text);
        lab_profile_worst_stall(lab_profile_kernel(profile, i));
    }
}

static void parse_csv(const uint8_t *data, size_t size) {
    char *text = input_text(data, size);
    lab_profile profile;
    lab_message why;
    memset(&profile, 0, sizeof profile);
    memset(&why, 0, sizeof why);
    if (lab_profile_parse(&profile, text, &why))
        look(&profile);
    else
        check_message(&why);
    lab_profile_free(&profile);
    for (int i = 0; i < LAB_METRICS; i++)
        lab_metric_listed((lab_metric)i, text);
    free(text);
}

static void parse_json(const uint8_t *data, size_t size) {
    lab_profile profile;
    lab_message why;
    memset(&profile, 0, sizeof profile);
    memset(&why, 0, sizeof why);
    if (lab_profile_read_json(&profile, input_file(0, data, size), &why))
        look(&profile);
    else
        check_message(&why);
    lab_profile_free(&profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 0 && data[0] == '{')
        parse_json(data, size);
    else
        parse_csv(data, size);
    return 0;
}
