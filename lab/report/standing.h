/* standing.h: attest compared with its rivals: goals, and cliffs of a sweep.
 *
 * A goal is a number that this project set out to reach relative to a rival: the geometric mean
 * or the worst cell of a group of problems, or a fraction of a rate. Speeds are those of the
 * report's pairs: medians of the ratios per round. If a file has sustained samples, those are
 * judged; otherwise those of its first pace. */
#ifndef LAB_STANDING_H
#define LAB_STANDING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lab/report/report_model.h"

/* Sets of goals, or-ed. Those after the first three are rows of goal_rows.def. */
enum {
    LAB_GOALS_FLASH = 1u << 0, /* against PyTorch's FlashAttention-2 */
    LAB_GOALS_HOPPER =
        1u << 1, /* against the best of cuDNN, FlashAttention-2 and -3 in the files */
    LAB_GOALS_CPU = 1u << 2, /* against PyTorch's own choice on a CPU */
    LAB_GOALS_FEATURES = 1u << 3,
    LAB_GOALS_BIAS = 1u << 4,
    LAB_GOALS_MASKS = 1u << 5,
    LAB_GOALS_WINDOWS = 1u << 6,
    LAB_GOALS_LENGTHS = 1u << 7,
    LAB_GOALS_PAGES = 1u << 8,
    LAB_GOALS_CHUNK = 1u << 9,
    LAB_GOALS_FEW_HEADS = 1u << 10,
    LAB_GOALS_DECODE_SWEEP = 1u << 11,
    LAB_GOALS_BACKWARD = 1u << 12,
    LAB_GOALS_EXPERTS = 1u << 13,
    LAB_GOALS_PARALLEL = 1u << 14,
    LAB_GOALS_FLOAT32 = 1u << 15,
    LAB_GOALS_CPU_BACKWARD = 1u << 16,
    LAB_GOALS_CPU_EXPERTS = 1u << 17,
    LAB_GOALS_ALL = (1u << 18) - 1,
    /* What results of a GPU are held to unless goals are named. */
    LAB_GOALS_OF_GPU =
        (LAB_GOALS_CPU_BACKWARD - 1) & ~(unsigned)(LAB_GOALS_HOPPER | LAB_GOALS_CPU),
    LAB_GOALS_OF_CPU = LAB_GOALS_CPU | LAB_GOALS_CPU_BACKWARD | LAB_GOALS_CPU_EXPERTS
};

/* The names of the sets, with spaces between them, and `all` and `none`. */
extern const char lab_goals_names[];

/* Parse a comma-separated list of names, "flash,hopper", "all" or "none", into bits; false with
 * `why` if one is unknown. */
bool lab_goals_parse(unsigned *bits, const char *list, lab_message *why);

typedef struct lab_goal {
    const char *text;
    double found, wanted;
    double aim;   /* further than what is wanted; 0: none */
    bool at_most; /* the number must not exceed the wanted one; otherwise it must reach it */
    size_t cells; /* problems that it was found from; 0: not measured in these files, although
                   * other goals of its set are */
    bool holds;
    const char *at; /* the label of the worst cell; "" if there is none */
} lab_goal;

/* A point of a sweep that is slower than its neighbours. */
typedef struct lab_cliff {
    size_t timing;
    double fall; /* as a fraction */
} lab_cliff;

typedef struct lab_standing {
    const lab_report *report;
    const char *mode; /* the pace that is judged */
    lab_goal *goals;
    size_t goal_count;
    lab_cliff *cliffs; /* the worst first */
    size_t cliff_count, swept;
    size_t wrong; /* answers of attest that were wrong or refused */
} lab_standing;

/* Judge the report; its texts live as long as the report. `goals` 0: no goals. */
bool lab_standing_of(lab_standing *out, lab_report *report, unsigned goals, lab_message *why);
void lab_standing_free(lab_standing *standing);

/* Whether a newer file times the same problem by the same subject. */
bool lab_standing_is_old(const lab_report *report, const lab_report_timing *timing);

/* Whether a timing is the newest of its problem, at the pace that is judged, and from the
 * device's own clock if there is one. */
bool lab_standing_counts(const lab_standing *standing, const lab_report_timing *timing);

/* True if no goal is missed and there is no cliff and no wrong answer. */
bool lab_standing_holds(const lab_standing *standing);

/* For lab_standing_of(): fill in the cliffs; add the goals that are rows of a table; add one
 * goal, with whether it holds, and the label of the worst problem if `at` is given. */
bool lab_standing_sweep(lab_standing *standing, lab_message *why);
bool lab_standing_rows(lab_standing *standing, lab_report *report, unsigned goals,
                       lab_message *why);
bool lab_standing_add(lab_standing *standing, lab_report *report, lab_goal goal,
                      const lab_report_timing *at, lab_message *why);

/* Every timing with its comparisons, as a table for a terminal. */
void lab_standing_table(FILE *out, const lab_report *report);

/* The goals and the cliffs, one line each. */
void lab_standing_lines(FILE *out, const lab_standing *standing);

/* The same as JSON: rows, goals, cliffs. */
json_t *lab_json_standing(const lab_standing *standing);

#endif
