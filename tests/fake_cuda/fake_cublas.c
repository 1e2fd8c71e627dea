/* fake_cublas.c: a cuBLAS that multiplies nothing and records its calls. */
#include "tests/fake_cuda/fake_cublas.h"

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static fake_cublas state;

EXPORT fake_cublas *fake_cublas_state(void);
EXPORT int cublasCreate_v2(void **handle);
EXPORT int cublasDestroy_v2(void *handle);
EXPORT int cublasSetStream_v2(void *handle, void *stream);
EXPORT int cublasSetWorkspace_v2(void *handle, void *scratch, size_t bytes);
EXPORT int cublasGemmBatchedEx(void *handle, int op_a, int op_b, int m, int n, int k,
                               const void *alpha, const void *a, int type_a, int lda,
                               const void *b, int type_b, int ldb, const void *beta,
                               const void *c, int type_c, int ldc, int count, int compute,
                               int algorithm);

fake_cublas *fake_cublas_state(void) {
    return &state;
}

/* CUBLAS_STATUS_EXECUTION_FAILED if the test wants it. */
static int answer(const char *call) {
    return state.fail_call && strcmp(state.fail_call, call) == 0 ? 13 : 0;
}

int cublasCreate_v2(void **handle) {
    const int code = answer(__func__);
    if (code == 0) {
        state.handles++;
        *handle = &state;
    }
    return code;
}

int cublasDestroy_v2(void *handle) {
    (void)handle;
    return answer(__func__);
}

int cublasSetStream_v2(void *handle, void *stream) {
    (void)handle;
    state.stream = stream;
    state.scratch = NULL;
    return answer(__func__);
}

int cublasSetWorkspace_v2(void *handle, void *scratch, size_t bytes) {
    (void)handle;
    state.scratch = scratch;
    state.scratch_bytes = bytes;
    return answer(__func__);
}

int cublasGemmBatchedEx(void *handle, int op_a, int op_b, int m, int n, int k,
                        const void *alpha, const void *a, int type_a, int lda, const void *b,
                        int type_b, int ldb, const void *beta, const void *c, int type_c,
                        int ldc, int count, int compute, int algorithm) {
    (void)handle;
    (void)alpha;
    (void)beta;
    (void)compute;
    (void)algorithm;
    state.products++;
    state.last[1] = state.last[0];
    state.last[0] = (fake_cublas_product){.op_a = op_a,
                                          .op_b = op_b,
                                          .m = m,
                                          .n = n,
                                          .k = k,
                                          .type_a = type_a,
                                          .lda = lda,
                                          .type_b = type_b,
                                          .ldb = ldb,
                                          .type_c = type_c,
                                          .ldc = ldc,
                                          .count = count,
                                          .a = a,
                                          .b = b,
                                          .c = c};
    return answer(__func__);
}
