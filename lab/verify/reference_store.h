/* reference_store.h: answers of the references, kept for the next kernel that is judged on the same problem.
 *
 * A process that judges many kernels asks the oracle the same questions again and again: contents are a function of the problem and the
 * seed, and so are the answers. Only for subjects that are the library's own kernels: a plug-in could look for the answers in this
 * process's memory. */
#ifndef LAB_REFERENCE_STORE_H
#define LAB_REFERENCE_STORE_H

#include "lab/verify/references.h"

typedef struct lab_reference_store lab_reference_store;

/* NULL where memory cannot be had. It keeps that many bytes of answers at most; what comes when it is full is not kept. */
lab_reference_store *lab_reference_store_create(size_t bytes_most);

/* Wiped before it is given back. NULL is allowed. */
void lab_reference_store_destroy(lab_reference_store *store);

/* Of a problem whose tensors hold what `seed` gives them. */
typedef struct lab_reference_question {
    const lab_tensors *tensors;
    uint64_t seed;
    const lab_row *rows;
    int64_t count;
    const int *orders; /* of each set */
} lab_reference_question;

/* The answers that are kept, NULL where none are; they stay the store's. Thread: safe. */
const lab_references *lab_reference_store_find(lab_reference_store *store,
                                               const lab_reference_question *question);

/* Keep the answers and empty `made`, which becomes the store's; false where they are not kept and stay the caller's. Thread: safe. */
bool lab_reference_store_keep(lab_reference_store *store,
                              const lab_reference_question *question, lab_references *made);

/* How often an answer was found, for tests. */
size_t lab_reference_store_found(lab_reference_store *store);

#endif
