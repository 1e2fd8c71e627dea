/* references.h: what the oracle and the plain reference say of some rows of a problem.
 *
 * Every row and every order of summation is a piece of work of its own, so that a few long rows keep all processors busy. A row's
 * answers depend on the row and the inputs alone, so the bits are the same for any number of threads. */
#ifndef LAB_REFERENCES_H
#define LAB_REFERENCES_H

#include "lab/tensors/tensors.h"

typedef struct lab_references {
    int64_t count;            /* rows */
    int64_t width;            /* values of the widest row: all have room for so many */
    int orders[LAB_SETS_MAX]; /* of the plain reference, for rows of each set */
    int most;                 /* of these */
    double *oracle;           /* `width` values of each row, then as many sizes of them */
    float *plain;             /* the values, `most` times */
} lab_references;

/* Values of the widest row, of the sets that are asked for; bytes of the answers for so many rows. */
int64_t lab_references_width(const lab_outputs *outputs, int sets);
size_t lab_references_bytes(int64_t count, int64_t width, int most);

/* Ask about these rows, in so many orders by their sets; false where memory cannot be had. */
bool lab_references_make(lab_references *out, const lab_tensors *tensors, const lab_row *rows,
                         int64_t count, const int orders[LAB_SETS_MAX]);

/* Wiped before it is given back: right answers must not lie about in memory that the next subject is given. */
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
