/* ranks_table.h: `attest plan --ranks`: a sequence split over several devices, as text and
 * JSON. */
#ifndef CLI_RANKS_TABLE_H
#define CLI_RANKS_TABLE_H

#include <jansson.h>
#include <stdio.h>

#include "cli/options.h"
#include "lab/problem/spec.h"

/* Whether the arguments of --ranks, --link and --whole are complete and about attention. Prints
 * an error if not. */
bool cli_ranks_asked_well(const cli_options *o, const lab_spec *specs, size_t count);

/* A table per number of ranks. `whole`: seconds on one device; `memory`: its bytes per second,
 * or 0. Returns a JSON list. */
json_t *cli_plan_put_ranks(FILE *text, const cli_options *o, const lab_spec *spec, double whole,
                           double memory);

#endif
