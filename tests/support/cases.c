/* cases.c: tests x engines x dtypes x numbers of rows. */
#include "tests/support/cases.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/dtype.h"

static const att_dtype DTYPES[] = {ATT_F32, ATT_F16, ATT_BF16};
static const int64_t ROWS[] = {1, 3, 37};

enum { CASES_MAX = ENGINES_MAX * 3 * 3, NAME_MAX_BYTES = 160 };

int cases_run(const struct CMUnitTest *tests, size_t count) {
    static test_case cases[CASES_MAX];
    engines e;
    engines_open(&e, 2);
    size_t n = 0;
    for (int i = 0; i < e.count; i++)
        for (size_t t = 0; t < 3; t++)
            for (size_t r = 0; r < 3; r++)
                cases[n++] = (test_case){e.ctx[i], e.isa[i], DTYPES[t], ROWS[r]};

    struct CMUnitTest *all = calloc(count * n, sizeof *all);
    char(*names)[NAME_MAX_BYTES] = calloc(count * n, sizeof *names);
    if (!all || !names)
        abort();
    for (size_t i = 0; i < count * n; i++) {
        test_case *c = &cases[i % n];
        all[i] = tests[i / n];
        all[i].initial_state = c;
        all[i].name = names[i];
        snprintf(names[i], sizeof names[i], "%s [%s %s rows=%d]", tests[i / n].name,
                 isa_name(c->isa), att_dtype_name(c->dtype), (int)c->rows);
    }
    const int failed = _cmocka_run_group_tests("cases", all, count * n, NULL, NULL);
    free(all);
    free(names);
    engines_close(&e);
    return failed;
}
