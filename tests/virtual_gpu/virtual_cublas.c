/* virtual_cublas.c: the cuBLAS of the virtual GPU, for the rung `unfused`: products on the
 * host, in stream order.
 *
 * It is part of the driver's library, so that a graph replays a product like a kernel. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "tests/fake_cuda/fake_driver.h"

enum { SUCCESS = 0, NO_MEMORY = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };
enum { OP_N = 0, OP_T = 1, R_32F = 0, R_16F = 2, R_16BF = 14 };

typedef struct handle {
    CUstream stream;
} handle;

/* C = op(A) B for each of the batch, column-major. */
typedef struct product {
    int transpose_a, m, n, k, lda, ldb, ldc, count;
    att_dtype dtype;
    const void *const *a, *const *b;
    float *const *c;
} product;

int cublasCreate_v2(handle **out);
int cublasDestroy_v2(handle *h);
int cublasSetStream_v2(handle *h, CUstream stream);
int cublasSetWorkspace_v2(handle *h, void *scratch, size_t bytes);
int cublasGemmBatchedEx(handle *h, int op_a, int op_b, int m, int n, int k, const float *alpha,
                        const void *const *a, int type_a, int lda, const void *const *b,
                        int type_b, int ldb, const float *beta, void *const *c, int type_c,
                        int ldc, int count, int compute, int algorithm);

int cublasCreate_v2(handle **out) {
    *out = calloc(1, sizeof **out);
    return *out ? SUCCESS : NO_MEMORY;
}

int cublasDestroy_v2(handle *h) {
    free(h);
    return SUCCESS;
}

int cublasSetStream_v2(handle *h, CUstream stream) {
    h->stream = stream;
    return SUCCESS;
}

int cublasSetWorkspace_v2(handle *h, void *scratch, size_t bytes) {
    (void)h, (void)scratch, (void)bytes;
    return SUCCESS;
}

static void multiply_one(const product *p, const void *a, const void *b, float *c) {
    for (int j = 0; j < p->n; j++) {
        float *column = c + (long long)j * p->ldc;
        for (int i = 0; i < p->m; i++) {
            float sum = 0.0f;
            for (int l = 0; l < p->k; l++) {
                const long long at =
                    p->transpose_a ? l + (long long)i * p->lda : i + (long long)l * p->lda;
                sum += att_load(a, p->dtype, at) *
                       att_load(b, p->dtype, l + (long long)j * p->ldb);
            }
            column[i] = sum;
        }
        backend_memory_written(column, (size_t)p->m * sizeof *column);
    }
}

static void multiply(const void *params) {
    const product *p = params;
    for (int i = 0; i < p->count; i++)
        multiply_one(p, p->a[i], p->b[i], p->c[i]);
}

/* What the rung needs: only the sum, for tensors of one type. */
int cublasGemmBatchedEx(handle *h, int op_a, int op_b, int m, int n, int k, const float *alpha,
                        const void *const *a, int type_a, int lda, const void *const *b,
                        int type_b, int ldb, const float *beta, void *const *c, int type_c,
                        int ldc, int count, int compute, int algorithm) {
    (void)compute, (void)algorithm;
    if (op_b != OP_N || *alpha != 1.0f || *beta != 0.0f || type_b != type_a || type_c != R_32F)
        return INVALID_VALUE;
    const product p = {.transpose_a = op_a == OP_T,
                       .m = m,
                       .n = n,
                       .k = k,
                       .lda = lda,
                       .ldb = ldb,
                       .ldc = ldc,
                       .count = count,
                       .dtype = type_a == R_16F    ? ATT_F16
                                : type_a == R_16BF ? ATT_BF16
                                                   : ATT_F32,
                       .a = a,
                       .b = b,
                       .c = (float *const *)c};
    fake_node node = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .host = multiply, .bytes = sizeof p};
    memcpy(node.params, &p, sizeof p);
    return fake_stream_take(&node, h->stream) == CUDA_SUCCESS ? SUCCESS : EXECUTION_FAILED;
}
