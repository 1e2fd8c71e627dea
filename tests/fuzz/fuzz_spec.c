/* fuzz_spec.c: problems as text: what parses must print, and parse again to the same
 * problem. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/problem/problem_json.h"
#include "lab/problem/spec.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

static void check_round(const lab_spec *spec, const char *text) {
    char line[LAB_SPEC_MAX], again[LAB_SPEC_MAX];
    lab_spec other;
    lab_message why;
    lab_spec_print(spec, line, sizeof line);
    if (!lab_spec_parse(&other, line, &why))
        finding("'%s' prints as '%s', which does not parse: %s", text, line, why.text);
    lab_spec_print(&other, again, sizeof again);
    if (strcmp(line, again) != 0)
        finding("'%s' prints as '%s', and that as '%s'", text, line, again);
}

/* Are its operations and bytes to be checked? Lengths of many sequences are drawn one by
 * one. */
static bool is_counted(const lab_spec *spec) {
    return strcmp(lab_spec_operation(spec), "merge") == 0 || spec->problem.batch < 4096;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = input_text(data, size);
    lab_spec spec;
    lab_message why;
    memset(&why, 0, sizeof why);
    if (lab_spec_parse(&spec, text, &why)) {
        check_round(&spec, text);
        json_decref(lab_json_problem(&spec));
        if (is_counted(&spec)) {
            const double flops = lab_spec_flops(&spec), bytes = lab_spec_bytes(&spec);
            if (!(flops >= 0.0) || !(bytes >= 0.0))
                finding("'%s' has %g operations and %g bytes", text, flops, bytes);
        }
    } else {
        check_message(&why);
    }
    free(text);
    return 0;
}
