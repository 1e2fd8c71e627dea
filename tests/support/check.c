/* check.c: assertions that print the library's error message. */
#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void check_failure(const char *call, att_status got, att_status status, const char *field,
                   const char *word, const char *file, int line) {
    const att_error *error = att_last_error();
    const bool named = strcmp(error->field, field) == 0;
    const bool said = strstr(error->text, word) != NULL && error->text[0] != '\0';
    if (got == status && error->status == status && named && said)
        return;
    print_error("%s\n    returned %s, recorded %s, field \"%s\", text \"%s\"\n", call,
                att_status_name(got), att_status_name(error->status), error->field,
                error->text);
    print_error("    wanted %s, field \"%s\", a text with \"%s\"\n", att_status_name(status),
                field, word);
    _fail(file, line);
}

void check_near(double got, double want, double tolerance, const char *file, int line) {
    const bool same = got == want || (isnan(got) && isnan(want));
    if (same || fabs(got - want) <= tolerance)
        return;
    print_error("%.9g is not within %.3g of %.9g\n", got, tolerance, want);
    _fail(file, line);
}
