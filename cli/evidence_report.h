/* evidence_report.h: how kernels stand by the evidence, as text and as a document. */
#ifndef CLI_EVIDENCE_REPORT_H
#define CLI_EVIDENCE_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "lab/evidence/evidence_judge.h"

/* "h200: current, l4: missing" of one kernel; "-" where no device with evidence runs it. */
void cli_evidence_cell(const lab_judgement *judgement, const char *kernel, char *buf, size_t n);

/* Put behind it what is off for want of evidence: "unattested, off"; "; off on sm_80 sm_86". */
void cli_evidence_targets(const att_kernel_info *kernel, char *buf, size_t n);

/* The same as an array of objects. */
json_t *cli_evidence_array(const lab_judgement *judgement, const char *kernel);

/* The files that are about no kernel. */
json_t *cli_evidence_files(const lab_judgement *judgement);

/* What is not well, a line each. Returns how many fail. */
size_t cli_put_faults(FILE *text, const lab_judgement *judgement);

/* How many kernels are in which state, one line per device. */
void cli_put_standings(FILE *text, const lab_judgement *judgement);

#endif
