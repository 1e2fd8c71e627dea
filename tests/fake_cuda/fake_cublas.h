/* fake_cublas.h: how a test controls the fake cuBLAS, and its recorded calls. */
#ifndef ATT_FAKE_CUBLAS_H
#define ATT_FAKE_CUBLAS_H

#include <stddef.h>

typedef struct fake_cublas_product {
    int op_a, op_b, m, n, k, type_a, lda, type_b, ldb, type_c, ldc, count;
    const void *a, *b, *c;
} fake_cublas_product;

typedef struct fake_cublas {
    const char
        *fail_call; /* every call of this name fails, e.g. "cublasCreate_v2"; NULL: none */
    int handles;    /* handles created */
    int products;
    void *stream;  /* set last */
    void *scratch; /* set after the stream; NULL: reset by setting the stream */
    size_t scratch_bytes;
    fake_cublas_product last[2]; /* the newest first */
} fake_cublas;

/* dlsym(library, "fake_cublas_state"): a function that returns the state. */
typedef fake_cublas *(*fake_cublas_state_function)(void);

#endif
