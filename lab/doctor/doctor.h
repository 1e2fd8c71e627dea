/* doctor.h: checks whether attest can run here. A list of findings, each with a remedy if one
 * is needed. */
#ifndef LAB_DOCTOR_H
#define LAB_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "attest.h"

typedef enum lab_level {
    LAB_FINE,
    LAB_WARN,   /* works, but not as well as it could */
    LAB_FAILED, /* a check failed */
    LAB_ABSENT  /* what was asked for does not exist on this machine */
} lab_level;

typedef struct lab_finding {
    lab_level level;
    char what[24]; /* "driver" */
    char text[480];
    char remedy[240]; /* "" if nothing needs to be done */
} lab_finding;

enum { LAB_FINDINGS_MAX = 64 };

typedef struct lab_doctor {
    att_device device; /* as requested; ATT_DEVICE_AUTO: the CPU, and a GPU if there is one */
    int device_index;
    int gpus; /* number found by the driver; set by lab_doctor_machine() */
    lab_finding findings[LAB_FINDINGS_MAX];
    size_t count;
    json_t *smoke; /* what was launched and timed, an array; NULL before */
} lab_doctor;

/* Add a finding. `remedy` may be NULL. */
void lab_doctor_add(lab_doctor *doctor, lab_level level, const char *what, const char *remedy,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The checks, in order. `stream` is for the progress bar. */
void lab_doctor_build(lab_doctor *doctor);
void lab_doctor_machine(lab_doctor *doctor);
void lab_doctor_smoke(lab_doctor *doctor, FILE *stream);

/* The worst of the findings: LAB_FAILED, then LAB_ABSENT, then LAB_WARN. */
lab_level lab_doctor_worst(const lab_doctor *doctor);

/* "ok", "warn", "fail": the reader sees an absence as a failure. */
const char *lab_level_name(lab_level level);

json_t *lab_doctor_findings(const lab_doctor *doctor);
void lab_doctor_free(lab_doctor *doctor);

#endif
