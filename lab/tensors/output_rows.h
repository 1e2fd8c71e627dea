/* output_rows.h: the rows of a problem's outputs, set by set. */
#ifndef LAB_OUTPUT_ROWS_H
#define LAB_OUTPUT_ROWS_H

#include "lab/tensors/tensors.h"

/* Whether an output of the set is asked for: the others have no rows here. */
bool lab_set_is_asked(const lab_outputs *outputs, int set);

/* How many rows the set has. */
int64_t lab_set_count(const lab_tensors *tensors, int set);

/* A walk over all rows: start, then next until it is false. */
typedef struct lab_row_walk {
    const lab_tensors *tensors;
    lab_outputs outputs;
    lab_row_set set;
    int64_t rows; /* of the batch entry */
    lab_row row;
} lab_row_walk;

void lab_walk_start(lab_row_walk *walk, const lab_tensors *tensors);
bool lab_walk_next(lab_row_walk *walk);

/* Calls `visit` with the bytes of an output's row: at once where they are contiguous, else one value after the other; and with those of every
 * output that the row is of. */
typedef void lab_visit_bytes(void *context, void *at, size_t bytes);
void lab_visit_output(const lab_tensors *tensors, const lab_output *output, int index,
                      lab_row row, lab_visit_bytes *visit, void *context);
void lab_visit_row(const lab_tensors *tensors, const lab_outputs *outputs, lab_row row,
                   lab_visit_bytes *visit, void *context);

#endif
