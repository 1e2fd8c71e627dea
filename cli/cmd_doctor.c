/* cmd_doctor.c: attest doctor. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "lab/base/screen.h"
#include "lab/doctor/doctor.h"

static void put_findings(FILE *text, const lab_doctor *doctor) {
    for (size_t i = 0; i < doctor->count; i++) {
        const lab_finding *f = &doctor->findings[i];
        const char *level = lab_level_name(f->level);
        lab_put_verdict(text, level);
        fprintf(text, "%*s %-12s %s\n", 5 - (int)strlen(level), "", f->what, f->text);
        if (*f->remedy)
            fprintf(text, "      %-12s remedy: %s\n", "", f->remedy);
    }
}

static void put_verdict(FILE *text, lab_level worst) {
    static const char *const verdicts[] = {
        [LAB_FINE] = "all is well",
        [LAB_WARN] = "attest works here; the warnings say what could be better",
        [LAB_FAILED] = "a check failed: do not trust results until it is fixed",
        [LAB_ABSENT] = "the requested device is not on this machine",
    };
    fprintf(text, "\n%s\n", verdicts[worst]);
}

cli_exit cli_doctor(const cli_options *o) {
    cli_session session;
    cli_session_start(&session, o);
    cli_exit result = cli_session_open_documents(&session);
    if (result == CLI_HOLDS) {
        lab_doctor doctor = {.device = o->device, .device_index = o->device_index};
        lab_doctor_build(&doctor);
        lab_doctor_machine(&doctor);
        lab_doctor_smoke(&doctor, stderr);
        const lab_level worst = lab_doctor_worst(&doctor);
        put_findings(session.text, &doctor);
        put_verdict(session.text, worst);
        json_t *document = lab_json_document("attest-doctor-1", NULL);
        json_object_set_new(document, "findings", lab_doctor_findings(&doctor));
        json_object_set(document, "runs", doctor.smoke);
        result = cli_session_finish(&session, document,
                                    worst == LAB_FAILED   ? CLI_CHECK_FAILED
                                    : worst == LAB_ABSENT ? CLI_NOT_POSSIBLE
                                                          : CLI_HOLDS);
        lab_doctor_free(&doctor);
    }
    cli_session_close(&session);
    return result;
}
