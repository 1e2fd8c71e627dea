/* output_rows.h: the rows of a problem's outputs, set by set. */
#ifndef LAB_OUTPUT_ROWS_H
#define LAB_OUTPUT_ROWS_H

#include "lab/tensors/tensors.h"

/* Whether an output of the set is asked for: only such sets have rows here. */
bool lab_set_is_asked(const lab_outputs *outputs, int set);

/* The number of rows of the set. */
int64_t lab_set_count(const lab_tensors *tensors, int set);

/* A walk over all rows: start, then next until it returns false. */
typedef struct lab_row_walk {
    const lab_tensors *tensors;
    lab_outputs outputs;
    lab_row_set set;
    int64_t rows; /* of the batch entry */
    lab_row row;
} lab_row_walk;

void lab_walk_start(lab_row_walk *walk, const lab_tensors *tensors);
bool lab_walk_next(lab_row_walk *walk);

/* Call `visit` with the bytes of an output's row: once if they are contiguous, otherwise value
 * by value; and with those of every output that has the row. */
typedef void lab_visit_bytes(void *context, void *at, size_t bytes);
void lab_visit_output(const lab_tensors *tensors, const lab_output *output, int index,
                      lab_row row, lab_visit_bytes *visit, void *context);
void lab_visit_row(const lab_tensors *tensors, const lab_outputs *outputs, lab_row row,
                   lab_visit_bytes *visit, void *context);

#endif
