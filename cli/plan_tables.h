/* plan_tables.h: the kernels and the tiles of a plan as text. */
#ifndef CLI_PLAN_TABLES_H
#define CLI_PLAN_TABLES_H

#include <stdio.h>

#include "lab/plan/plan_result.h"

/* "13.3 us"; returns `buf`. */
const char *cli_microseconds(char *buf, size_t n, double seconds);

/* Whether the library has a time for the chosen kernel. If so, the tiles of fwd_sm80 are not
 * what a reader asks for. */
bool cli_plan_is_timed(const lab_plan_result *r);

/* The kernels that support the problem. */
void cli_plan_put_kernels(FILE *text, const lab_plan_result *r, const lab_device *device);

/* The grid of tiles; without `all` the fastest, and those that exist as kernels. */
void cli_plan_put_tiles(FILE *text, const lab_plan_result *r, const lab_device *device,
                        const lab_spec *spec, bool all);

#endif
