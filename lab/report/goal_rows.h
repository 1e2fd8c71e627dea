/* goal_rows.h: goals as rows of a table: what is measured, over which problems, and the limits.
 *
 * A row is about the timings of attest in its groups whose problems have one of the parts `with`
 * in their line, and none of `without`. */
#ifndef LAB_GOAL_ROWS_H
#define LAB_GOAL_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/report/standing.h"

/* What a timing of attest counts for. `must` is the least of a speed or rate, and the most of a
 * time. */
typedef enum lab_goal_measure {
    LAB_GOAL_SPEED,         /* times the speed of the fastest of the rivals */
    LAB_GOAL_TIME,          /* time, as a multiple of the fastest rival's */
    LAB_GOAL_TIME_OF_TILES, /* the same, of the share of its time that the visible tiles are */
    LAB_GOAL_TIME_OF_BYTES, /* the same, of the larger of its time and the bias's bytes at
                             * LAB_GOAL_READ_RATE */
    LAB_GOAL_READS,       /* bytes per second, as a fraction of LAB_GOAL_READ_RATE, of problems
                             * with more than LAB_GOAL_READ_BYTES */
    LAB_GOAL_MICROSECONDS /* time of a call */
} lab_goal_measure;

#define LAB_GOAL_READ_RATE  4.6e12 /* bytes per second that reads reach on an H200 */
#define LAB_GOAL_READ_BYTES 64e6

typedef struct lab_goal_row {
    unsigned set;                /* one of LAB_GOALS_* */
    const char *groups, *rivals; /* names, with commas */
    const char *with, *without;  /* parts of a line, with | between them; "": any problem */
    const char *text;
    lab_goal_measure measure;
    bool mean;        /* the geometric mean of the problems; otherwise the worst one */
    double must, aim; /* aim 0: none */
} lab_goal_row;

extern const lab_goal_row lab_goal_rows[];
extern const size_t lab_goal_row_count;

/* The goal of a row, not measured. */
lab_goal lab_goal_row_open(const lab_goal_row *row);

#endif
