/* merge_case.h: a merge problem drawn from a fuzzer's bytes, its arrays, and what a run must
 * leave in them. As attention_case.h. */
#ifndef FUZZ_MERGE_CASE_H
#define FUZZ_MERGE_CASE_H

#include "attest.h"
#include "tests/fuzz/array_slot.h"
#include "tests/fuzz/random_input.h"

enum { MERGE_PARTS_MOST = 9, MERGE_FILL = 0x7b };

typedef struct merge_case {
    att_merge_problem problem;
    att_merge_args args;
    void *workspace;
    array_slot o, lse, scratch;
    array_slot part_o[MERGE_PARTS_MOST], part_lse[MERGE_PARTS_MOST];
    const void *part_o_list[MERGE_PARTS_MOST];
    const float *part_lse_list[MERGE_PARTS_MOST];
} merge_case;

void merge_draw(att_merge_problem *p, random_input *in);
void merge_break(att_merge_problem *p, random_input *in);
bool merge_open(merge_case *c, random_input *in, size_t workspace_bytes);

/* Make one argument wrong; false if there was nothing to spoil. The call must then be
 * refused. */
bool merge_spoil(merge_case *c, random_input *in);

void merge_check_untouched(const merge_case *c);
void merge_check(const merge_case *c, const char *name);

#endif
