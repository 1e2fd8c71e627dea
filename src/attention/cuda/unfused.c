/* unfused.c: the unfused rung of the ladder, in three steps. cuBLAS computes S = QK^T and PV;
 * the step between them is kernels/unfused.cu. */
#include "attention/cuda/unfused.h"

#include <limits.h>

#include "base/checked.h"
#include "base/error.h"
#include "attention/cuda/alignment.h"
#include "attention/problem.h"
#include "cuda/cublas.h"
#include "kernels/unfused_params.h"

enum {
    PRODUCTS_MOST = 65535, /* per batched call */
    ROW_ALIGN = 16,        /* alignment of every row in bytes */
    POINTER_ARRAYS = 6,
    PITCH = 8 /* keys: 16 bytes of the smaller type */
};

/* Scores grow with the square of the sequence length. Allowing slow kernels does not imply
 * allowing that. */
static const double scratch_most = 2.0 * 1024 * 1024 * 1024;

/* cuBLAS requires rows that do not overlap, at a distance that fits 32 bits. A single row has
 * no distance. */
static bool takes_rows(int64_t rows, int64_t stride, int64_t d) {
    return rows <= 1 || (stride >= d && stride <= INT_MAX);
}

static double scratch_estimate(const att_problem *p) {
    const double rows = (double)p->batch * (double)p->heads_q * (double)p->seq_q;
    const double weight = p->dtype == ATT_F32 ? 4.0 : 2.0;
    return rows * ((double)p->seq_k * (4.0 + weight) + (double)p->d_v * 4.0);
}

const char *att_cuda_unfused_refusal(const att_problem *p, const char **field) {
    *field = "features";
    if (p->features & ATT_LENGTHS_VARY)
        return "multiplies whole sequences: no lengths that vary";
    *field = "batch";
    if (p->batch * p->heads_q > PRODUCTS_MOST)
        return "batch x heads_q is above 65535";
    /* cuBLAS cannot see the alignment of pointers in device memory: it assumes the best. */
    if (att_cuda_row_alignment(p, field) < ROW_ALIGN)
        return "rows are not aligned to 16 bytes";
    *field = "q";
    if (!takes_rows(p->seq_q, p->q.row, p->d_qk))
        return "cuBLAS does not take this row stride";
    *field = "k";
    if (!takes_rows(p->seq_k, p->k.row, p->d_qk))
        return "cuBLAS does not take this row stride";
    *field = "v";
    if (!takes_rows(p->seq_k, p->v.row, p->d_v))
        return "cuBLAS does not take this row stride";
    *field = "seq_k";
    if (scratch_estimate(p) > scratch_most)
        return "the scores would need more than 2 GiB of workspace";
    *field = "kernel";
    if (!att_cublas_found())
        return "cuBLAS is not found";
    *field = NULL;
    return NULL;
}

/* Offsets into the workspace, each aligned as cuBLAS requires. */
typedef struct scratch {
    size_t cublas, scores, weights, product, top, sum, pointers, bytes;
    int64_t pitch;
} scratch;

static size_t take(scratch *s, int64_t bytes) {
    const size_t at = s->bytes;
    s->bytes += (size_t)att_round_up(bytes, ATT_CUBLAS_ALIGN);
    return at;
}

/* The refusal above bounds every product here. */
static scratch scratch_of(int64_t products, int64_t seq_q, int64_t seq_k, int64_t d_v,
                          att_dtype dtype) {
    scratch s = {.pitch = att_round_up(seq_k, PITCH)};
    const int64_t rows = products * seq_q;
    s.cublas = take(&s, ATT_CUBLAS_SCRATCH);
    s.scores = take(&s, rows * s.pitch * 4);
    s.weights = take(&s, rows * s.pitch * (int64_t)att_dtype_size(dtype));
    s.product = take(&s, rows * d_v * 4);
    s.top = take(&s, rows * 4);
    s.sum = take(&s, rows * 4);
    s.pointers = take(&s, products * POINTER_ARRAYS * (int64_t)sizeof(void *));
    s.bytes +=
        ATT_CUBLAS_ALIGN - ATT_WORKSPACE_ALIGN; /* room to align the workspace's own start */
    return s;
}

size_t att_cuda_unfused_workspace(const att_problem *p) {
    return scratch_of(p->batch * p->heads_q, p->seq_q, p->seq_k, p->d_v, p->dtype).bytes;
}

static int pitch_of(int64_t rows, int64_t stride, int64_t d) {
    return rows <= 1 ? (int)d : (int)stride;
}

static att_status launch(const att_cuda_tiling *tiling, att_unfused_params *u, int phase,
                         void *stream) {
    att_cuda_shape shape = tiling->shape;
    u->phase = phase;
    if (phase == ATT_UNFUSED_POINTERS)
        shape.grid[0] = (uint32_t)att_ceil_div((int64_t)u->fwd.batch * u->fwd.heads_q,
                                               (int64_t)shape.threads);
    return att_cuda_launch(tiling->function, &shape, u, sizeof *u, stream);
}

att_status att_cuda_unfused_run(const att_cuda_tiling *tiling, const att_fwd_params *params,
                                void *workspace, void *stream) {
    const att_fwd_params *p = params;
    const att_dtype dtype = (att_dtype)p->dtype;
    const int products = p->batch * p->heads_q;
    const scratch s = scratch_of(products, p->seq_q, p->seq_k, p->d_v, dtype);
    char *base = (char *)att_round_up((int64_t)(intptr_t)workspace, ATT_CUBLAS_ALIGN);
    att_unfused_params u = {.fwd = *p,
                            .scores = (float *)(void *)(base + s.scores),
                            .weights = base + s.weights,
                            .product = (float *)(void *)(base + s.product),
                            .top = (float *)(void *)(base + s.top),
                            .sum = (float *)(void *)(base + s.sum),
                            .pointers = (const void **)(void *)(base + s.pointers),
                            .pitch = s.pitch};
    const void *const *pointers = u.pointers;
    /* Row-major S = QK^T is column-major S^T = K Q^T, and O = PV is O^T = V^T P^T. */
    const att_cublas_product scores = {.transpose_a = true,
                                       .rows = p->seq_k,
                                       .columns = p->seq_q,
                                       .inner = p->d_qk,
                                       .a = pointers + products,
                                       .b = pointers,
                                       .c = pointers + 2 * products,
                                       .pitch_a = pitch_of(p->seq_k, p->k_stride.row, p->d_qk),
                                       .pitch_b = pitch_of(p->seq_q, p->q_stride.row, p->d_qk),
                                       .pitch_c = (int)s.pitch,
                                       .dtype = dtype,
                                       .count = products};
    const att_cublas_product output = {.rows = p->d_v,
                                       .columns = p->seq_q,
                                       .inner = p->seq_k,
                                       .a = pointers + 3 * products,
                                       .b = pointers + 4 * products,
                                       .c = pointers + 5 * products,
                                       .pitch_a = pitch_of(p->seq_k, p->v_stride.row, p->d_v),
                                       .pitch_b = (int)s.pitch,
                                       .pitch_c = p->d_v,
                                       .dtype = dtype,
                                       .count = products};
    void *own = base + s.cublas;
    ATT_TRY(launch(tiling, &u, ATT_UNFUSED_POINTERS, stream));
    if (p->seq_k > 0)
        ATT_TRY(att_cublas_multiply(tiling->cublas, &scores, own, stream));
    ATT_TRY(launch(tiling, &u, ATT_UNFUSED_SOFTMAX, stream));
    if (p->seq_k > 0)
        ATT_TRY(att_cublas_multiply(tiling->cublas, &output, own, stream));
    return launch(tiling, &u, ATT_UNFUSED_FINISH, stream);
}
