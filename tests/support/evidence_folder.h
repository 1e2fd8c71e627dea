/* evidence_folder.h: a folder of statements for a test, and kernels to make statements about. */
#ifndef TESTS_EVIDENCE_FOLDER_H
#define TESTS_EVIDENCE_FOLDER_H

#include <jansson.h>

#include "core/registry.h"
#include "cuda/row.h"
#include "lab/evidence/evidence_judge.h"

/* The folder, between the two calls, which return 0 if they succeed. */
extern char evidence_folder[];
int open_evidence(void);
int close_evidence(void);

/* Write a file of the folder. */
void write_evidence(const char *name, const char *text);

/* Write a statement about a kernel on a device; judge the one that is there. */
void keep_statement(json_t *statement, const char *place, const char *id);
lab_judged judged_statement(const char *place, const char *id);

/* The kernel's index in the registry. */
size_t kernel_index(const char *id);

/* The first kernel of a role for sm_90 that ships as attested: others need no statement. */
const char *first_of_role(att_cuda_role role);

#endif
