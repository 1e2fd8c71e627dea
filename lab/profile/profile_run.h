/* profile_run.h: runs ncu on a run of this program. */
#ifndef LAB_PROFILE_RUN_H
#define LAB_PROFILE_RUN_H

#include <stdio.h>

#include "lab/profile/profile.h"

/* What to profile. */
typedef struct lab_profile_job {
    const char *const *command; /* the program and its arguments, ends with NULL */
    const char *report;         /* FILE of FILE.ncu-rep, replaced if it exists */
    int launches;               /* at most */
    FILE *stream;               /* for the progress bar */
} lab_profile_job;

typedef enum lab_profile_outcome {
    LAB_PROFILE_DONE,
    LAB_PROFILE_NO_TOOL,   /* ncu is not installed */
    LAB_PROFILE_FORBIDDEN, /* counters are not permitted */
    LAB_PROFILE_FAILED,    /* ncu or the program failed */
    LAB_PROFILE_UNREADABLE /* the output of ncu has an unknown form */
} lab_profile_outcome;

/* Run the command under ncu, for the metrics that this GPU has, then read the report. ncu is
 * the environment variable ATTEST_NCU, or found in PATH, or in CUDA's folder. `unlisted`
 * receives the metrics that were not asked for. */
lab_profile_outcome lab_profile_run(lab_profile *profile, bool unlisted[LAB_METRICS],
                                    const lab_profile_job *job, lab_message *why);

/* Read a report: FILE.ncu-rep with ncu, or a document of `attest profile --json`. */
lab_profile_outcome lab_profile_read(lab_profile *profile, const char *path, lab_message *why);

/* A remedy for the outcome; NULL if there is none. */
const char *lab_profile_remedy(lab_profile_outcome outcome);

#endif
