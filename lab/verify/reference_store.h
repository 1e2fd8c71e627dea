/* reference_store.h: answers of the references, kept for the next kernel that is judged on the
 * same problem.
 *
 * A process that judges many kernels asks the oracle the same questions repeatedly: contents
 * are a function of the problem and the seed, and so are the answers. Use it only for the
 * library's own kernels: a plug-in could search this process's memory for the answers. */
#ifndef LAB_REFERENCE_STORE_H
#define LAB_REFERENCE_STORE_H

#include "lab/verify/references.h"

typedef struct lab_reference_store lab_reference_store;

/* NULL if memory ran out. Keeps at most that many bytes of answers; once it is full, further
 * answers are not kept. */
lab_reference_store *lab_reference_store_create(size_t bytes_most);

/* Wiped before it is freed. NULL is allowed. */
void lab_reference_store_destroy(lab_reference_store *store);

/* A question about a problem whose tensors are filled from `seed`. */
typedef struct lab_reference_question {
    const lab_tensors *tensors;
    uint64_t seed;
    const lab_row *rows;
    int64_t count;
    const int *orders; /* for each set */
} lab_reference_question;

/* The answers, owned by the store; NULL if there are none. Thread: safe. */
const lab_references *lab_reference_store_find(lab_reference_store *store,
                                               const lab_reference_question *question);

/* Keep the answers and empty `made`, which the store then owns; false if they are not kept and
 * stay with the caller. Thread: safe. */
bool lab_reference_store_keep(lab_reference_store *store,
                              const lab_reference_question *question, lab_references *made);

/* The number of hits, for tests. */
size_t lab_reference_store_found(lab_reference_store *store);

#endif
