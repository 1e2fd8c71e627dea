/* evidence_report.h: the standing of kernels according to the evidence: read, and shown as text and
 * as a document. */
#ifndef CLI_EVIDENCE_REPORT_H
#define CLI_EVIDENCE_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "cli/options.h"
#include "lab/evidence/evidence_judge.h"

/* Read and judge the evidence of --evidence, or that which ships with the program, which may be
 * absent; with a progress bar. Free both in any case. Prints errors. */
cli_exit cli_evidence_read(const cli_options *o, lab_evidence *evidence,
                           lab_judgement *judgement);

/* "h200: current, l4: missing" for one kernel; "-" if no device with evidence runs it. */
void cli_evidence_cell(const lab_judgement *judgement, const char *kernel, char *buf, size_t n);

/* Its standing on one device: "current"; "none here" if there is no evidence from it. */
void cli_evidence_here(const lab_judgement *judgement, const char *place, const char *kernel,
                       char *buf, size_t n);

/* Append what is off for lack of evidence: "unattested, off"; "; off on sm_80 sm_86". */
void cli_evidence_targets(const att_kernel_info *kernel, char *buf, size_t n);

/* The same as an array of objects. */
json_t *cli_evidence_array(const lab_judgement *judgement, const char *kernel);

/* The files that are not about a kernel. */
json_t *cli_evidence_files(const lab_judgement *judgement);

/* Print the problems, one line each, with paths relative to the evidence folder. Returns how many
 * fail the check. */
size_t cli_put_faults(FILE *text, const lab_judgement *judgement, const char *folder);

/* The number of kernels of each standing, one line per device. */
void cli_put_standings(FILE *text, const lab_judgement *judgement);

/* The same with the devices of this machine first, and all others on one line. */
void cli_put_standings_here(FILE *text, const lab_judgement *judgement,
                            const char *const *places, size_t count);

#endif
