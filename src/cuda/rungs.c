/* rungs.c: the steps of the ladder below the production kernels. */
#include "cuda/rungs.h"

#include <stdbool.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "cuda/alignment.h"
#include "cuda/cublas.h"
#include "cuda/shape.h"
#include "cuda/unfused.h"

/* What a rung asks of a problem: the LIMITS of its source. */
enum {
    PLAIN_SCORES = 1u << 0, /* no softcap, ALiBi, bias, sinks, pages */
    VECTORS = 1u << 1,      /* 16 bytes at a time, O of the type of Q */
    CUBLAS = 1u << 2
};

static const struct {
    const char *source;
    unsigned asks;
} rungs[] = {
    {"naive", 0},
    {"tiled", PLAIN_SCORES},
    {"vector", PLAIN_SCORES | VECTORS},
    {"unfused", PLAIN_SCORES | CUBLAS},
    {"mma", PLAIN_SCORES | VECTORS},
    {"mma_async", PLAIN_SCORES | VECTORS},
};

static unsigned asks_of(const att_cuda_kernel *kernel) {
    for (size_t i = 0; i < sizeof rungs / sizeof rungs[0]; i++)
        if (strcmp(rungs[i].source, kernel->source) == 0)
            return rungs[i].asks;
    return 0;
}

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

/* Blocks of the grid, all along x: y and z end at 65,535. */
static int64_t blocks_of(const att_cuda_kernel *kernel, const att_problem *p) {
    return att_ceil_div(p->seq_q, kernel->tile_m) * p->heads_q * p->batch;
}

const char *att_cuda_rung_refusal(const att_cuda_kernel *kernel, const att_problem *p,
                                  const char **field) {
    const unsigned asks = asks_of(kernel);
    const char *why = NULL;
    if (asks & PLAIN_SCORES)
        why = changes_scores(p, field);
    if (!why && asks & VECTORS)
        why = breaks_vectors(p, field);
    if (!why && asks & CUBLAS)
        why = att_cuda_unfused_refusal(p, field);
    if (!why && blocks_of(kernel, p) > INT32_MAX) {
        *field = "batch";
        why = "has more blocks than a grid";
    }
    if (!why)
        *field = NULL;
    return why;
}

att_status att_cuda_rung_tiling(att_cuda_tiling *tiling, att_cuda_device *device,
                                const att_cuda_kernel *kernel, const att_problem *p) {
    tiling->params.splits = 1;
    tiling->params.row_blocks = (int)att_ceil_div(p->seq_q, kernel->tile_m);
    tiling->shape = (att_cuda_shape){.grid = {(uint32_t)blocks_of(kernel, p), 1, 1},
                                     .threads = att_cuda_kernel_threads(kernel),
                                     .shared = att_cuda_kernel_shared(kernel)};
    tiling->workspace = 0;
    tiling->cublas = NULL;
    if (!(asks_of(kernel) & CUBLAS))
        return att_cuda_function_allow(tiling->function, tiling->shape.shared);
    tiling->workspace = att_cuda_unfused_workspace(p);
    return att_cublas_open(&tiling->cublas, device);
}

att_status att_cuda_rung_run(const att_cuda_tiling *tiling, const att_fwd_params *params,
                             void *workspace, void *stream) {
    if (tiling->shape.grid[0] == 0)
        return ATT_OK;
    if (tiling->cublas)
        return att_cuda_unfused_run(tiling, params, workspace, stream);
    return att_cuda_launch(tiling->function, &tiling->shape, params, sizeof *params, stream);
}
