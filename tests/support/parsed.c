/* parsed.c: a parsed line, or a failed test. */
#include "tests/support/parsed.h"

#include "tests/support/check.h"

lab_spec parsed(const char *text) {
    lab_spec spec;
    lab_message why;
    if (!lab_spec_parse(&spec, text, &why))
        fail_msg("%s: %s", text, why.text);
    return spec;
}
