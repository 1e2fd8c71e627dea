/* goal_rows.c: the table of goals. */
#include "lab/report/goal_rows.h"

#define OTHERS         "flash,cudnn,efficient,math,default,flex,fa3" /* everything but attest itself */
#define SPLIT          "flash,cudnn,fa3" /* those that can split the keys */
#define FEATURE_GROUPS "features,features_fp16,patterns"
#define WORST          false
#define MEAN           true
#define GOAL(set, groups, rivals, with, without, measure, over, must, aim, text)               \
    {LAB_GOALS_##set, groups, rivals, with, without, text, LAB_GOAL_##measure, over, must, aim},

const lab_goal_row lab_goal_rows[] = {
#include "lab/report/goal_rows.def"
};
const size_t lab_goal_row_count = sizeof lab_goal_rows / sizeof lab_goal_rows[0];

lab_goal lab_goal_row_open(const lab_goal_row *row) {
    return (lab_goal){
        .text = row->text,
        .wanted = row->must,
        .aim = row->aim,
        .at_most = row->measure != LAB_GOAL_SPEED && row->measure != LAB_GOAL_READS,
        .at = ""};
}
