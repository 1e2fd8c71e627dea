/* profile_report.h: profiles as tables, for people and as CSV. */
#ifndef CLI_PROFILE_REPORT_H
#define CLI_PROFILE_REPORT_H

#include <stdio.h>

#include "lab/profile/profile.h"

/* One column per kernel, its stalls, and its bottleneck. */
void cli_put_profile(FILE *text, const lab_profile *profile);

/* The kernels of two profiles side by side, with the changes. */
void cli_put_profile_diff(FILE *text, const lab_profile *before, const lab_profile *after);

/* Every launch: launch,kernel,metric,unit,value; missing values have no line. */
void cli_put_profile_csv(FILE *csv, const lab_profile *profile);

#endif
