/* rungs.c: the steps of the ladder below the production kernels. */
#include "attention/cuda/rungs.h"

#include <stdbool.h>

#include "base/checked.h"
#include "base/error.h"
#include "attention/cuda/alignment.h"
#include "cuda/cublas.h"
#include "cuda/shape.h"
#include "attention/cuda/unfused.h"

static const char *changes_scores(const att_problem *p, const char **field) {
    *field = "softcap";
    if (p->softcap > 0.0f)
        return "has no softcap";
    *field = "features";
    if (p->features & ATT_ALIBI)
        return "has no ALiBi";
    if (p->features & ATT_BIAS)
        return "has no bias";
    if (p->features & ATT_SINKS)
        return "has no sinks";
    if (p->features & ATT_PAGED)
        return "reads no pages";
    return NULL;
}

static const char *breaks_vectors(const att_problem *p, const char **field) {
    *field = "dtype_o";
    if (p->dtype_o != p->dtype)
        return "writes O in the type of Q";
    *field = "d_qk";
    if (p->d_qk % 8 != 0)
        return "d_qk is not a multiple of 8";
    *field = "d_v";
    if (p->d_v % 8 != 0)
        return "d_v is not a multiple of 8";
    if (att_cuda_row_alignment(p, field) < 16)
        return "rows are not aligned to 16 bytes";
    return NULL;
}

/* Blocks of the grid, all along x: y and z are limited to 65,535. */
static int64_t blocks_of(const att_cuda_kernel *kernel, const att_problem *p) {
    return att_ceil_div(p->seq_q, kernel->tile_m) * p->heads_q * p->batch;
}

const char *att_cuda_rung_refusal(unsigned asks, const att_cuda_kernel *kernel,
                                  const att_problem *p, const char **field) {
    const char *why = NULL;
    if (asks & ATT_ASKS_PLAIN_SCORES)
        why = changes_scores(p, field);
    if (!why && asks & ATT_ASKS_VECTORS)
        why = breaks_vectors(p, field);
    if (!why && asks & ATT_ASKS_CUBLAS)
        why = att_cuda_unfused_refusal(p, field);
    if (!why && blocks_of(kernel, p) > INT32_MAX) {
        *field = "batch";
        why = "has more blocks than a grid";
    }
    if (!why)
        *field = NULL;
    return why;
}

att_status att_cuda_rung_cut(void *state, size_t *workspace, const att_context *ctx,
                             const att_kernel_row *row, const void *problem) {
    att_cuda_tiling *tiling = state;
    const att_problem *p = problem;
    ATT_TRY(att_cuda_tiling_begin(tiling, ctx, row->cuda, p));
    tiling->params.row_blocks = (int)att_ceil_div(p->seq_q, row->cuda->tile_m);
    tiling->shape = (att_cuda_shape){.grid = {(uint32_t)blocks_of(row->cuda, p), 1, 1},
                                     .threads = att_cuda_kernel_threads(row->cuda),
                                     .shared = att_cuda_kernel_shared(row->cuda)};
    *workspace = 0;
    if (!(row->family->asks & ATT_ASKS_CUBLAS))
        return att_cuda_function_allow(tiling->function, tiling->shape.shared);
    *workspace = att_cuda_unfused_workspace(p);
    return att_cublas_open(&tiling->cublas, ctx->gpu);
}

att_status att_cuda_rung_run(const att_plan *plan, const void *args, void *workspace,
                             void *stream) {
    const att_cuda_tiling *tiling = plan->state;
    att_fwd_params params;
    att_cuda_tiling_point(&params, tiling, args);
    if (tiling->shape.grid[0] == 0)
        return ATT_OK;
    if (tiling->cublas)
        return att_cuda_unfused_run(tiling, &params, workspace, stream);
    return att_cuda_launch(tiling->function, &tiling->shape, &params, sizeof params, stream);
}
