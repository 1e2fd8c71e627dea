/* refusals.c: compares outcomes with a list. */
#include "cli/refusals.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/screen.h"

static bool add_pattern(cli_refusals *r, const char *line) {
    char(*grown)[LAB_SPEC_MAX] = realloc(r->patterns, (r->count + 1) * sizeof *grown);
    if (!grown)
        return false;
    r->patterns = grown;
    snprintf(grown[r->count++], LAB_SPEC_MAX, "%s", line);
    return true;
}

bool cli_refusals_read(cli_refusals *r, const cli_options *o) {
    char line[LAB_SPEC_MAX];
    *r = (cli_refusals){.given = o->refusals != NULL};
    if (!r->given)
        return true;
    FILE *file = fopen(o->refusals, "r");
    if (!file)
        return cli_complain(o, "--refusals %s: %s", o->refusals, strerror(errno));
    bool ok = true;
    while (ok && fgets(line, sizeof line, file)) {
        line[strcspn(line, "#\n")] = '\0';
        const char *word = strtok(line, " \t\r");
        ok = !word || add_pattern(r, word);
    }
    fclose(file);
    return ok || cli_complain(o, "--refusals: out of memory");
}

void cli_refusals_free(cli_refusals *r) {
    free(r->patterns);
    *r = (cli_refusals){.count = 0};
}

bool cli_refusals_expect(const cli_refusals *r, const cli_session *session,
                         const lab_spec *spec, const lab_verify_result *result) {
    char line[LAB_SPEC_MAX];
    bool listed = false;
    lab_spec_print(spec, line, sizeof line);
    for (size_t i = 0; i < r->count && !listed; i++)
        listed = fnmatch(r->patterns[i], line, 0) == 0;
    const bool refused = result->outcome == LAB_REFUSED;
    if (!r->given || result->outcome == LAB_FAIL ||
        (refused ? listed && result->status == ATT_E_UNSUPPORTED : !listed))
        return true;
    fputc('\n', session->text);
    lab_put_verdict(session->text, "FAIL");
    fprintf(session->text, " %s\n  %s\n", line,
            !refused ? "is served, though --refusals lists it"
            : listed ? "was not tried: not enough memory"
                     : "is refused, which --refusals does not list");
    return false;
}
