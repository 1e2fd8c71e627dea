/* merge_cuda_family.c: merge on a GPU: threads of a warp share a row. */
#include "base/checked.h"
#include "base/dtype.h"
#include "base/error.h"
#include "core/plan.h"
#include "cuda/divisor.h"
#include "cuda/launch.h"
#include "cuda/shape.h"
#include "kernels/merge_params.h"
#include "merge/merge.h"

_Static_assert((int)ATT_MERGE_PARTS == (int)ATT_MERGE_PARTS_MAX, "parts of a launch");

enum { VECTOR = 16, LANES_LEAST_LOG2 = 2, LANES_MOST_LOG2 = 5 };
enum { FEW_BYTES_MOST = (VECTOR * ATT_MERGE_FEW_VECTORS) << LANES_MOST_LOG2 };

typedef struct state {
    const att_cuda_function *function;
    att_cuda_shape shape;
    att_merge_params params; /* except the pointers */
} state;

static bool serves(const att_kernel_row *row, const att_limits *limits, const void *problem,
                   att_refusal *refusal) {
    const att_merge_problem *p = problem;
    (void)limits;
    ATT_CONDITION(row->cuda->dtype == p->dtype, "dtype", "is for %s, not %s",
                  att_dtype_name(row->cuda->dtype), att_dtype_name(p->dtype));
    ATT_CONDITION(p->d <= row->cuda->d_v, "d", "d=%lld is above %d", (long long)p->d,
                  row->cuda->d_v);
    /* Cannot overflow: the problem was checked. */
    ATT_CONDITION(p->batch * p->heads * p->seq <= INT32_MAX, "seq",
                  "batch x heads x seq=%lld does not fit the 32 bits that GPU kernels count in",
                  (long long)(p->batch * p->heads * p->seq));
    return true;
}

/* The strides of an empty problem may be anything, so they are not multiplied unchecked. */
static bool is_whole(const att_strides *s, const att_merge_problem *p, int64_t element) {
    const int64_t steps = (p->batch > 1 ? s->batch : 0) | (p->heads > 1 ? s->head : 0) |
                          (p->seq > 1 ? s->row : 0);
    return steps % VECTOR * element % VECTOR == 0;
}

/* May every row be moved 16 bytes at a time? */
static bool has_vectors(const att_merge_problem *p) {
    const int64_t in = att_dtype_bytes(p->dtype), out = att_dtype_bytes(p->dtype_o);
    return att_merge_base_alignment(p) == VECTOR && p->d * in % VECTOR == 0 &&
           p->d * out % VECTOR == 0 && is_whole(&p->part_o, p, in) && is_whole(&p->o, p, out);
}

/* The axis along which the rows of a block are consecutive, and the other one. Normally
 * positions: the log-sums of neighbours share a memory sector. Heads if the positions would not
 * fill a block. */
typedef struct axes {
    bool near_is_heads;
    int64_t near, far;
} axes;

static axes axes_of(const att_merge_problem *p, int64_t block_rows) {
    /* In an empty problem a size may exceed 32 bits; none of it is used. */
    const int64_t seq = att_min(p->seq, INT32_MAX), heads = att_min(p->heads, INT32_MAX);
    if (seq < block_rows && seq < heads)
        return (axes){.near_is_heads = true, .near = heads, .far = seq};
    return (axes){.near = seq, .far = heads};
}

static att_fwd_strides strides_of(const att_strides *s, const axes *a) {
    return (att_fwd_strides){.batch = s->batch,
                             .head = a->near_is_heads ? s->row : s->head,
                             .row = a->near_is_heads ? s->head : s->row,
                             .col = s->col};
}

static att_status cut(void *out, size_t *workspace, const att_context *ctx,
                      const att_kernel_row *row, const void *problem) {
    const att_merge_problem *p = problem;
    state *s = out;
    *workspace = 0;
    ATT_TRY(att_cuda_function_load(&s->function, ctx->gpu, row->cuda, &ctx->source));
    const bool vector = has_vectors(p);
    const bool few = vector && p->parts <= ATT_MERGE_FEW && p->dtype_o == p->dtype &&
                     p->d * att_dtype_bytes(p->dtype) <= FEW_BYTES_MOST;
    const int64_t vectors = att_ceil_div(p->d * att_dtype_bytes(p->dtype),
                                         VECTOR * (few ? ATT_MERGE_FEW_VECTORS : 1));
    int lanes_log2 = LANES_LEAST_LOG2;
    while (lanes_log2 < LANES_MOST_LOG2 && vectors > 1 << lanes_log2)
        lanes_log2++;
    const int64_t threads = att_cuda_kernel_threads(row->cuda);
    const axes a = axes_of(p, threads >> lanes_log2);
    const int64_t tiles = att_ceil_div(a.near, threads >> lanes_log2);
    const att_fwd_strides part_o = strides_of(&p->part_o, &a);
    const bool far_inside = part_o.head < part_o.row;
    const int64_t inner = far_inside ? a.far : tiles, outer = far_inside ? tiles : a.far;
    s->shape = (att_cuda_shape){.grid = {(uint32_t)(p->batch * (a.far * tiles)), 1, 1},
                                .threads = (uint32_t)threads};
    s->params = (att_merge_params){
        .part_o_stride = part_o,
        .part_lse_stride = strides_of(&p->part_lse, &a),
        .o_stride = strides_of(&p->o, &a),
        .lse_stride = strides_of(&p->lse, &a),
        .near = (int)a.near,
        .inner = (int)inner,
        .outer = (int)outer,
        .far_inside = far_inside,
        .d = (int)p->d,
        .parts = (int)p->parts,
        .dtype_o = (int)p->dtype_o,
        .lanes_log2 = lanes_log2,
        .vector = vector,
        .few = few,
        .by_inner = att_cuda_divisor((unsigned)att_max(1, inner)),
        .by_outer = att_cuda_divisor((unsigned)att_max(1, outer)),
    };
    return ATT_OK;
}

static att_status run(const att_plan *plan, const void *args, void *workspace, void *stream) {
    const state *s = plan->state;
    const att_merge_args *a = args;
    (void)workspace;
    if (a->launch)
        att_cuda_launch_record(a->launch, s->function, &s->shape);
    if (s->shape.grid[0] == 0)
        return ATT_OK;
    att_merge_params params = s->params;
    params.o = a->o;
    params.lse = a->lse;
    for (int i = 0; i < params.parts; i++) {
        params.part_o[i] = a->part_o[i];
        params.part_lse[i] = a->part_lse[i];
    }
    return att_cuda_launch(s->function, &s->shape, &params, sizeof params, stream);
}

static void describe(const att_plan *plan, char *text, size_t n) {
    const state *s = plan->state;
    snprintf(text, n, "grid %u x 1 x 1, %u threads per block, %d threads per row%s",
             s->shape.grid[0], s->shape.threads, 1 << s->params.lanes_log2,
             s->params.vector ? "" : ", element by element");
}

const att_family att_family_merge = {.operation = &att_operation_merge,
                                     .state_bytes = sizeof(state),
                                     .serves = serves,
                                     .cut = cut,
                                     .run = run,
                                     .describe = describe};
