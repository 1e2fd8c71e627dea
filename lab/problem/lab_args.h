/* lab_args.h: the pointers of one run of any operation, as the laboratory keeps them. */
#ifndef LAB_ARGS_H
#define LAB_ARGS_H

#include "attest.h"

/* For a merge: holds the lists themselves, so that a copy is complete. */
typedef struct lab_merge_args {
    const void *part_o[ATT_MERGE_PARTS_MAX];
    const float *part_lse[ATT_MERGE_PARTS_MAX];
    void *o;
    float *lse;
    att_launch *launch;
} lab_merge_args;

typedef union lab_args {
    att_args attention;
    lab_merge_args merge;
    att_moe_args moe;
} lab_args;

#endif
