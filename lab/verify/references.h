/* references.h: the answers of the oracle and of the plain reference for some rows of a
 * problem.
 *
 * Every row and every order of summation is a separate work item, so that a few long rows keep
 * all processors busy. A row's answers depend only on the row and the inputs, so the bits are
 * the same for any number of threads. */
#ifndef LAB_REFERENCES_H
#define LAB_REFERENCES_H

#include "lab/tensors/tensors.h"

typedef struct lab_references {
    int64_t count;            /* rows */
    int64_t width;            /* values of the widest row: every row has room for this many */
    int orders[LAB_SETS_MAX]; /* of the plain reference, for rows of each set */
    int most;                 /* the largest of these */
    double *oracle;           /* `width` values per row, then `width` sizes of them */
    float *plain;             /* the values, `most` times */
} lab_references;

/* The number of values of the widest row in the requested sets; the bytes of the answers for
 * that many rows. */
int64_t lab_references_width(const lab_outputs *outputs, int sets);
size_t lab_references_bytes(int64_t count, int64_t width, int most);

/* Compute the answers for these rows, in that many orders per set; false if memory ran out. */
bool lab_references_make(lab_references *out, const lab_tensors *tensors, const lab_row *rows,
                         int64_t count, const int orders[LAB_SETS_MAX]);

/* Wiped before it is freed: right answers must not stay in memory that the next subject is
 * given. */
void lab_references_free(lab_references *references);

static inline const double *lab_references_oracle(const lab_references *r, int64_t row) {
    return r->oracle + row * 2 * r->width;
}

static inline const double *lab_references_sizes(const lab_references *r, int64_t row) {
    return lab_references_oracle(r, row) + r->width;
}

static inline const float *lab_references_plain(const lab_references *r, int64_t row,
                                                int order) {
    return r->plain + (order * r->count + row) * r->width;
}

#endif
