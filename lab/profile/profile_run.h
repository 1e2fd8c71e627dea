/* profile_run.h: ncu at work on a run of this program. */
#ifndef LAB_PROFILE_RUN_H
#define LAB_PROFILE_RUN_H

#include "lab/profile/profile.h"

/* What to profile. */
typedef struct lab_profile_job {
    const char *const *command; /* the program and its arguments, ends with NULL */
    const char *report;         /* FILE of FILE.ncu-rep, replaced where it is there */
    int launches;               /* at most */
} lab_profile_job;

typedef enum lab_profile_outcome {
    LAB_PROFILE_DONE,
    LAB_PROFILE_NO_TOOL,   /* there is no ncu */
    LAB_PROFILE_FORBIDDEN, /* counters are not permitted */
    LAB_PROFILE_FAILED,    /* ncu or the program did not end well */
    LAB_PROFILE_UNREADABLE /* what ncu printed is not what it prints */
} lab_profile_outcome;

/* Run the command under ncu, for the metrics that this GPU has, then read the report. ncu is the environment's ATTEST_NCU, or found by PATH, or in
 * CUDA's folder. `unlisted` becomes which metrics were not asked for. */
lab_profile_outcome lab_profile_run(lab_profile *profile, bool unlisted[LAB_METRICS],
                                    const lab_profile_job *job, lab_message *why);

/* Read a report: FILE.ncu-rep by ncu, or a document of `attest profile --json`. */
lab_profile_outcome lab_profile_read(lab_profile *profile, const char *path, lab_message *why);

/* What to do about an outcome, NULL for the others. */
const char *lab_profile_remedy(lab_profile_outcome outcome);

#endif
