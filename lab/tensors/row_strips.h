/* row_strips.h: the rows of a problem's outputs in strips of adjacent rows, for parallel
 * work. */
#ifndef LAB_ROW_STRIPS_H
#define LAB_ROW_STRIPS_H

#include "lab/tensors/tensors.h"

enum { LAB_STRIP_ROWS = 256 };

typedef struct lab_row_strips {
    const lab_tensors *tensors;
    lab_outputs outputs;
    int64_t rows;  /* of all sets */
    int64_t count; /* strips; all but the last have LAB_STRIP_ROWS rows */
    lab_row_set set[LAB_SETS_MAX];
    int64_t first[LAB_SETS_MAX +
                  1]; /* index of the first batch entry of each set, counted over all sets */
    int64_t *before;  /* rows before each batch entry */
} lab_row_strips;

/* False if memory ran out. */
bool lab_row_strips_open(lab_row_strips *strips, const lab_tensors *tensors);
void lab_row_strips_close(lab_row_strips *strips);

/* Row n of all, in the order set, batch entry, head, row. */
lab_row lab_row_strips_row(const lab_row_strips *strips, int64_t n);

/* The first row of a strip, and its number of rows; then the following row. */
int64_t lab_strip_first(const lab_row_strips *strips, int64_t strip, lab_row *row);
void lab_strip_next(const lab_row_strips *strips, lab_row *row);

#endif
