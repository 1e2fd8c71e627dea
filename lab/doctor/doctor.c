/* doctor.c: the list of findings. */
#include "lab/doctor/doctor.h"

#include <stdarg.h>

void lab_doctor_add(lab_doctor *doctor, lab_level level, const char *what, const char *remedy,
                    const char *format, ...) {
    if (doctor->count == LAB_FINDINGS_MAX)
        return;
    lab_finding *finding = &doctor->findings[doctor->count++];
    finding->level = level;
    snprintf(finding->what, sizeof finding->what, "%s", what);
    snprintf(finding->remedy, sizeof finding->remedy, "%s", remedy ? remedy : "");
    va_list list;
    va_start(list, format);
    vsnprintf(finding->text, sizeof finding->text, format, list);
    va_end(list);
}

lab_level lab_doctor_worst(const lab_doctor *doctor) {
    static const lab_level by_weight[] = {LAB_FAILED, LAB_ABSENT, LAB_WARN};
    for (size_t w = 0; w < sizeof by_weight / sizeof by_weight[0]; w++)
        for (size_t i = 0; i < doctor->count; i++)
            if (doctor->findings[i].level == by_weight[w])
                return by_weight[w];
    return LAB_FINE;
}

const char *lab_level_name(lab_level level) {
    switch (level) {
    case LAB_FINE:
        return "ok";
    case LAB_WARN:
        return "warn";
    case LAB_FAILED:
    case LAB_ABSENT:
        return "fail";
    }
    return "unknown";
}

json_t *lab_doctor_findings(const lab_doctor *doctor) {
    json_t *array = json_array();
    for (size_t i = 0; i < doctor->count; i++) {
        const lab_finding *f = &doctor->findings[i];
        json_array_append_new(
            array, json_pack("{s:s, s:s, s:s, s:s}", "level", lab_level_name(f->level), "what",
                             f->what, "text", f->text, "remedy", f->remedy));
    }
    return array;
}

void lab_doctor_free(lab_doctor *doctor) {
    json_decref(doctor->smoke);
    doctor->smoke = NULL;
}
