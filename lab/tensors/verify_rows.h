/* verify_rows.h: which output rows the oracle checks. */
#ifndef LAB_VERIFY_ROWS_H
#define LAB_VERIFY_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/tensors/tensors.h"

typedef struct lab_rows {
    int64_t total;                /* rows the problem has */
    int64_t count;                /* rows listed; equals total if all are */
    int64_t of_set[LAB_SETS_MAX]; /* how many of these belong to each set */
    lab_row *list;
} lab_rows;

/* Every row if the oracle can check all with max_work multiply-adds; otherwise a seeded sample,
 * the same fraction of every set: the first and last rows of sequences, rows on both sides of
 * tile edges, and random rows. */
bool lab_rows_choose(lab_rows *rows, const lab_tensors *tensors, uint64_t seed,
                     int64_t max_work);

/* Exactly these rows, as if there were no others. */
bool lab_rows_copy(lab_rows *rows, const lab_row *list, size_t count);
void lab_rows_free(lab_rows *rows);

#endif
