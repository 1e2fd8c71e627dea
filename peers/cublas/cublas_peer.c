/* cublas_peer.c: attention in three steps as a peer: S = QK^T by cuBLAS, a softmax, O = PV by
 * cuBLAS.
 *
 *     attest bench b2h8s512d64 --device cuda --peer build/peers/cublas.so
 *
 * This is what code without a fused kernel does: the scores go through memory, in float32,
 * and the weights in the type of Q. cuBLAS chooses its own algorithms (its default
 * heuristic), on tensor cores, with 32 MiB of scratch. */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "attest_peer.h"
#include "peers/cublas/cublas_libraries.h"
#include "peers/cublas/cublas_steps.h"

/* Values of cuBLAS's own enums. */
enum { OP_N = 0, OP_T = 1, COMPUTE_32F = 68, GEMM_DEFAULT = -1 };
enum { R_32F = 0, R_16F = 2, R_16BF = 14 };

enum {
    THREADS = 256,
    ALIGN = 256, /* for every part of the workspace */
    PITCH = 8,   /* keys per row of scores are a multiple of it: 16 bytes of weights */
    PRODUCTS_MOST = 65535,
    SCRATCH = 32 << 20, /* for cuBLAS itself */
    ROW_BYTES = 16      /* cuBLAS assumes this alignment of rows behind device pointers */
};

static const double workspace_most = 4.0 * 1024 * 1024 * 1024;

/* Both kernels, compiled by nvcc for the GPUs that attest is built for. */
__asm__(".section .rodata\n"
        ".balign 16\n"
        "peer_cublas_code:\n"
        ".incbin \"" PEER_CUBLAS_CODE "\"\n"
        ".byte 0\n"
        ".previous\n");
extern const unsigned char peer_cublas_code[] __attribute__((visibility("hidden")));

typedef struct ready {
    const peer_libraries *l;
    att_problem p;
    int64_t pitch;
    void *library, *pointers, *softmax, *handle;
    size_t scores, weights, arrays, bytes; /* offsets in the workspace; cuBLAS's scratch comes
                                            * first */
} ready;

/* ------------------------------------------------------------------------ what is taken */

static int refuse(char *why, size_t n, const char *text) {
    snprintf(why, n, "%s", text);
    return 0;
}

static int rows_fit(const att_strides *s, int64_t rows, int64_t d) {
    const int64_t per = ROW_BYTES / 2;
    return d % per == 0 && s->head % per == 0 && s->batch % per == 0 && s->head <= INT_MAX &&
           (rows <= 1 || (s->row % per == 0 && s->row >= d && s->row <= INT_MAX));
}

static double bytes_of_scores(const att_problem *p) {
    return 6.0 * (double)p->batch * (double)p->heads_q * (double)p->seq_q *
           (double)(p->seq_k + PITCH);
}

static int supports(const att_problem *p, const att_peer_device *device, char *why, size_t n) {
    const char *missing;
    (void)device;
    if (!peer_libraries_get(&missing))
        return refuse(why, n, missing);
    if (p->dtype != ATT_F16 && p->dtype != ATT_BF16)
        return refuse(why, n, "dtype: float16 and bfloat16 only");
    if (p->dtype_o != p->dtype)
        return refuse(why, n, "dtype_o: the type of Q only");
    if (p->features & ~(uint32_t)ATT_LSE)
        return refuse(why, n, "features: LSE only");
    if (p->window_left >= 0 || p->window_right >= 0)
        return refuse(why, n, "window: none");
    if (p->softcap != 0.0f)
        return refuse(why, n, "softcap: none");
    if (p->seq_q < 1 || p->seq_k < 1 || p->batch < 1)
        return refuse(why, n, "seq_q, seq_k, batch: at least 1");
    if (p->batch * p->heads_q > PRODUCTS_MOST)
        return refuse(why, n, "batch: batch x heads_q is above 65535");
    if (!rows_fit(&p->q, p->seq_q, p->d_qk) || !rows_fit(&p->k, p->seq_k, p->d_qk) ||
        !rows_fit(&p->v, p->seq_k, p->d_v) || !rows_fit(&p->o, p->seq_q, p->d_v) ||
        (p->alignment && p->alignment < ROW_BYTES))
        return refuse(why, n, "strides: rows that cuBLAS takes, aligned to 16 bytes, only");
    if (bytes_of_scores(p) > workspace_most)
        return refuse(why, n, "seq_k: the scores would need more than 4 GiB");
    return 1;
}

/* -------------------------------------------------------------------------------- life */

static size_t take(ready *r, int64_t bytes) {
    const size_t at = r->bytes;
    r->bytes += ((size_t)bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static void destroy(void *state) {
    ready *r = state;
    if (r->handle)
        r->l->blas.Destroy_v2(r->handle);
    if (r->library)
        r->l->cu.LibraryUnload(r->library);
    free(r);
}

static int kernel_named(const ready *r, void **function, const char *name) {
    void *kernel;
    const int code = r->l->cu.LibraryGetKernel(&kernel, r->library, name);
    return code ? code : r->l->cu.KernelGetFunction(function, kernel);
}

static int prepare(void **state, const att_problem *p, const att_peer_device *device, char *why,
                   size_t n) {
    const char *missing;
    (void)device;
    ready *r = calloc(1, sizeof *r);
    if (!r)
        return snprintf(why, n, "no memory");
    r->l = peer_libraries_get(&missing);
    r->p = *p;
    r->pitch = (p->seq_k + PITCH - 1) / PITCH * PITCH;
    const int64_t heads = p->batch * p->heads_q, scores = heads * p->seq_q * r->pitch;
    take(r, SCRATCH);
    r->scores = take(r, 4 * scores);
    r->weights = take(r, 2 * scores);
    r->arrays = take(r, 6 * heads * (int64_t)sizeof(void *));
    r->bytes += ALIGN; /* room to align the start of the workspace */
    int code =
        r->l->cu.LibraryLoadData(&r->library, peer_cublas_code, NULL, NULL, 0, NULL, NULL, 0);
    if (code)
        snprintf(why, n, "cuLibraryLoadData failed");
    if (!code && (code = kernel_named(r, &r->pointers, "peer_cublas_pointers")) == 0)
        code = kernel_named(r, &r->softmax, "peer_cublas_softmax");
    if (!code && (code = r->l->blas.Create_v2(&r->handle)) != 0)
        snprintf(why, n, "cublasCreate failed");
    if (code) {
        destroy(r);
        return code;
    }
    *state = r;
    return 0;
}

static size_t workspace(const void *state) {
    return ((const ready *)state)->bytes;
}

/* --------------------------------------------------------------------------------- run */

static peer_cublas_params params_of(const ready *r, const att_args *a, char *base) {
    const att_problem *p = &r->p;
    return (peer_cublas_params){
        .q = a->q,
        .k = a->k,
        .v = a->v,
        .o = a->o,
        .lse = a->lse,
        .scores = (float *)(void *)(base + r->scores),
        .weights = base + r->weights,
        .pointers = (const void **)(void *)(base + r->arrays),
        .q_batch = p->q.batch,
        .k_batch = p->k.batch,
        .v_batch = p->v.batch,
        .o_batch = p->o.batch,
        .q_head = (int)p->q.head,
        .k_head = (int)p->k.head,
        .v_head = (int)p->v.head,
        .o_head = (int)p->o.head,
        .lse_batch = p->lse.batch,
        .lse_head = p->lse.head,
        .lse_row = p->lse.row,
        .batch = (int)p->batch,
        .heads_q = (int)p->heads_q,
        .group = (int)(p->heads_q / p->heads_kv),
        .seq_q = (int)p->seq_q,
        .seq_k = (int)p->seq_k,
        .pitch = (int)r->pitch,
        .causal = p->causal != ATT_CAUSAL_NONE,
        .shift = p->causal == ATT_CAUSAL_BOTTOM_RIGHT ? (int)(p->seq_k - p->seq_q) : 0,
        .bf16 = p->dtype == ATT_BF16,
    };
}

static int launch(const ready *r, void *function, peer_cublas_params *params, int64_t items,
                  int64_t per_block, void *stream) {
    const peer_launch config = {.grid = {(unsigned)((items + per_block - 1) / per_block), 1, 1},
                                .block = {THREADS, 1, 1},
                                .stream = stream};
    void *list[] = {params};
    return r->l->cu.LaunchKernelEx(&config, function, list, NULL);
}

static int pitch_of(int64_t rows, int64_t stride, int64_t d) {
    return rows <= 1 ? (int)d : (int)stride;
}

/* Row-major S = QK^T is column-major S^T = K Q^T, and O = PV is O^T = V^T P^T. */
static int multiply(const ready *r, const peer_cublas_params *u, int first,
                    const float *alpha) {
    const att_problem *p = &r->p;
    const int heads = u->batch * u->heads_q, type = u->bf16 ? R_16BF : R_16F;
    const void *const *at = u->pointers;
    const float zero = 0.0f;
    if (first)
        return r->l->blas.GemmBatchedEx(
            r->handle, OP_T, OP_N, u->seq_k, u->seq_q, (int)p->d_qk, alpha, at + heads, type,
            pitch_of(p->seq_k, p->k.row, p->d_qk), at, type,
            pitch_of(p->seq_q, p->q.row, p->d_qk), &zero, (void *)(uintptr_t)(at + 2 * heads),
            R_32F, u->pitch, heads, COMPUTE_32F, GEMM_DEFAULT);
    return r->l->blas.GemmBatchedEx(
        r->handle, OP_N, OP_N, (int)p->d_v, u->seq_q, u->seq_k, alpha, at + 3 * heads, type,
        pitch_of(p->seq_k, p->v.row, p->d_v), at + 4 * heads, type, u->pitch, &zero,
        (void *)(uintptr_t)(at + 5 * heads), type, pitch_of(p->seq_q, p->o.row, p->d_v), heads,
        COMPUTE_32F, GEMM_DEFAULT);
}

static int run(void *state, const att_args *args, void *scratch, void *stream, char *why,
               size_t n) {
    const ready *r = state;
    const float one = 1.0f;
    char *base = (char *)(((uintptr_t)scratch + ALIGN - 1) / ALIGN * ALIGN);
    peer_cublas_params u = params_of(r, args, base);
    const int64_t heads = (int64_t)u.batch * u.heads_q;
    /* Setting the stream resets the scratch: it is set afterwards. */
    int code = r->l->blas.SetStream_v2(r->handle, stream);
    if (!code)
        code = r->l->blas.SetWorkspace_v2(r->handle, base, SCRATCH);
    if (!code)
        code = launch(r, r->pointers, &u, heads, THREADS, stream);
    if (!code)
        code = multiply(r, &u, 1, &r->p.scale);
    if (!code)
        code = launch(r, r->softmax, &u, heads * u.seq_q, THREADS / 32, stream);
    if (!code)
        code = multiply(r, &u, 0, &one);
    if (code)
        snprintf(why, n, "a call of cuBLAS or of the driver failed");
    return code;
}

const att_peer *att_peer_get(void) {
    static char version[128];
    static att_peer table = {
        .abi = ATT_PEER_ABI,
        .devices = ATT_PEER_CUDA,
        .size = sizeof table,
        .name = "cublas",
        .version = version,
        .supports = supports,
        .prepare = prepare,
        .workspace = workspace,
        .run = run,
        .destroy = destroy,
        .copies = 2, /* cuBLAS may clear part of its scratch in each product */
    };
    const char *missing;
    const peer_libraries *l = peer_libraries_get(&missing);
    snprintf(version, sizeof version, "%s, batched, default heuristic, 32 MiB",
             l ? l->version : "none");
    return &table;
}
