/* fixture.c: buffers sized from the strides of a problem, one guarded block each. */
#include "tests/support/fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "tests/support/check.h"
#include "tests/support/rng.h"

enum { POISON = 0xa5 };

/* ------------------------------------------------------------------ shapes */

typedef struct extent {
    int64_t batch, head, row, col;
} extent;

static bool packed_q(const att_problem *p) {
    return (p->features & ATT_CU_SEQLENS_Q) != 0;
}

static bool paged(const att_problem *p) {
    return (p->features & ATT_PAGED) != 0;
}

static bool packed_k(const att_problem *p) {
    return (p->features & ATT_CU_SEQLENS_K) != 0 && !paged(p);
}

static int64_t pages_per_sequence(const att_problem *p) {
    return att_ceil_div(p->seq_k, p->page_size);
}

static extent shape_of(const att_problem *p, int tensor) {
    const int64_t col = tensor == BUF_Q || tensor == BUF_K ? p->d_qk : p->d_v;
    if (tensor == BUF_Q || tensor == BUF_O) {
        if (packed_q(p))
            return (extent){1, p->heads_q, p->total_q, col};
        return (extent){p->batch, p->heads_q, p->seq_q, col};
    }
    if (paged(p))
        return (extent){p->num_pages, p->heads_kv, p->page_size, col};
    if (packed_k(p))
        return (extent){1, p->heads_kv, p->total_k, col};
    return (extent){p->batch, p->heads_kv, p->seq_k, col};
}

static const att_strides *strides_of(const att_problem *p, int tensor) {
    switch (tensor) {
    case BUF_Q:
        return &p->q;
    case BUF_K:
        return &p->k;
    case BUF_V:
        return &p->v;
    default:
        return &p->o;
    }
}

static att_dtype dtype_of(const att_problem *p, int tensor) {
    return tensor == BUF_O ? p->dtype_o : p->dtype;
}

/* Elements from the first to the last that the strides reach; a dimension of size 1 adds
 * nothing. */
static size_t span(extent n, const att_strides *s) {
    if (n.batch == 0 || n.head == 0 || n.row == 0 || n.col == 0)
        return 0;
    const int64_t last = (n.batch > 1 ? (n.batch - 1) * s->batch : 0) +
                         (n.head > 1 ? (n.head - 1) * s->head : 0) +
                         (n.row > 1 ? (n.row - 1) * s->row : 0) +
                         (n.col > 1 ? (n.col - 1) * s->col : 0);
    return (size_t)last + 1;
}

/* ---------------------------------------------------------------- addresses */

static int64_t offset(extent n, const att_strides *s, int64_t batch, int64_t head, int64_t row,
                      int64_t col) {
    return (n.batch > 1 ? batch * s->batch : 0) + (n.head > 1 ? head * s->head : 0) +
           (n.row > 1 ? row * s->row : 0) + (n.col > 1 ? col * s->col : 0);
}

static int64_t index_of(const fixture *f, int tensor, int64_t b, int64_t h, int64_t row,
                        int64_t col) {
    const att_problem *p = &f->problem;
    const bool query_side = tensor == BUF_Q || tensor == BUF_O;
    if (query_side && packed_q(p)) {
        row += f->args.cu_seqlens_q[b];
        b = 0;
    } else if (!query_side && paged(p)) {
        b = f->args.page_table[b * p->page_table_stride + row / p->page_size];
        row %= p->page_size;
    } else if (!query_side && packed_k(p)) {
        row += f->args.cu_seqlens_k[b];
        b = 0;
    }
    return offset(shape_of(p, tensor), strides_of(p, tensor), b, h, row, col);
}

float fixture_get(const fixture *f, int tensor, int64_t b, int64_t h, int64_t row,
                  int64_t col) {
    return att_load(f->buf[tensor].data, dtype_of(&f->problem, tensor),
                    index_of(f, tensor, b, h, row, col));
}

void fixture_set(fixture *f, int tensor, int64_t b, int64_t h, int64_t row, int64_t col,
                 float value) {
    att_store(f->buf[tensor].data, dtype_of(&f->problem, tensor),
              index_of(f, tensor, b, h, row, col), value);
}

static extent shape_lse(const att_problem *p) {
    if (packed_q(p))
        return (extent){1, p->heads_q, p->total_q, 1};
    return (extent){p->batch, p->heads_q, p->seq_q, 1};
}

float fixture_lse(const fixture *f, int64_t b, int64_t h, int64_t row) {
    if (packed_q(&f->problem)) {
        row += f->args.cu_seqlens_q[b];
        b = 0;
    }
    return f->args.lse[offset(shape_lse(&f->problem), &f->problem.lse, b, h, row, 0)];
}

static extent shape_bias(const att_problem *p) {
    return (extent){p->batch, p->heads_q, p->seq_q, p->seq_k};
}

void fixture_set_bias(fixture *f, int64_t b, int64_t h, int64_t row, int64_t key, float value) {
    const att_problem *p = &f->problem;
    const int64_t at = offset(shape_bias(p), &p->bias, b, h, row, key);
    if (p->bias_dtype == ATT_BOOL8)
        f->buf[BUF_BIAS].data[at] = value != 0;
    else
        att_store(f->buf[BUF_BIAS].data, p->bias_dtype, at, value);
}

/* ------------------------------------------------------------------ filling */

static void fill_random(guarded *block, att_dtype dtype, uint64_t *state) {
    const size_t n = block->bytes / att_dtype_size(dtype);
    for (size_t i = 0; i < n; i++) {
        const float x = rng_signed(state);
        if (dtype == ATT_BOOL8)
            block->data[i] = x > -0.5f;
        else
            att_store(block->data, dtype, (int64_t)i, x);
    }
}

/* Lengths that differ by at most one and add up to as much of `total` as `longest` allows. */
static void fill_cu_seqlens(guarded *block, int64_t batch, int64_t total, int64_t longest) {
    int32_t *cu = (int32_t *)(void *)block->data;
    cu[0] = 0;
    for (int64_t b = 0; b < batch; b++)
        cu[b + 1] = cu[b] + (int32_t)att_min(longest, (total - cu[b]) / (batch - b));
}

void fixture_fill(fixture *f, int tensor, float value) {
    const att_dtype dtype = dtype_of(&f->problem, tensor);
    const int64_t n = (int64_t)(f->buf[tensor].bytes / att_dtype_size(dtype));
    for (int64_t i = 0; i < n; i++)
        att_store(f->buf[tensor].data, dtype, i, value);
}

void fixture_fill_row(fixture *f, int tensor, int64_t b, int64_t h, int64_t row, float value) {
    const int64_t cols = shape_of(&f->problem, tensor).col;
    for (int64_t c = 0; c < cols; c++)
        fixture_set(f, tensor, b, h, row, c, value);
}

void fixture_poison(fixture *f) {
    memset(f->buf[BUF_O].data, POISON, f->buf[BUF_O].bytes);
    if (f->buf[BUF_LSE].data)
        memset(f->buf[BUF_LSE].data, POISON, f->buf[BUF_LSE].bytes);
}

static bool all_poison(const guarded *block) {
    for (size_t i = 0; i < block->bytes; i++)
        if (block->data[i] != POISON)
            return false;
    return true;
}

bool fixture_poisoned(const fixture *f) {
    return all_poison(&f->buf[BUF_O]) && all_poison(&f->buf[BUF_LSE]);
}

/* ---------------------------------------------------------------- lifetime */

static void open_tensors(fixture *f, uint64_t *state) {
    const att_problem *p = &f->problem;
    for (int tensor = BUF_Q; tensor <= BUF_O; tensor++) {
        const size_t size = att_dtype_size(dtype_of(p, tensor));
        const size_t count = span(shape_of(p, tensor), strides_of(p, tensor));
        f->buf[tensor] = guard_open(count * size, size);
        if (tensor != BUF_O)
            fill_random(&f->buf[tensor], p->dtype, state);
    }
}

static void open_floats(fixture *f, int buffer, size_t count, uint64_t *state) {
    f->buf[buffer] = guard_open(count * sizeof(float), sizeof(float));
    fill_random(&f->buf[buffer], ATT_F32, state);
}

static void open_ints(fixture *f, int buffer, int64_t count) {
    f->buf[buffer] = guard_open((size_t)count * sizeof(int32_t), sizeof(int32_t));
}

static void open_optional(fixture *f, uint64_t *state) {
    const att_problem *p = &f->problem;
    if (p->features & ATT_LSE)
        f->buf[BUF_LSE] =
            guard_open(span(shape_lse(p), &p->lse) * sizeof(float), sizeof(float));
    if (p->features & ATT_ALIBI) {
        const int64_t rows = p->alibi_stride_batch ? p->batch - 1 : 0;
        open_floats(f, BUF_ALIBI, (size_t)(rows * p->alibi_stride_batch + p->heads_q), state);
    }
    if (p->features & ATT_BIAS) {
        const size_t size = att_dtype_size(p->bias_dtype);
        f->buf[BUF_BIAS] = guard_open(span(shape_bias(p), &p->bias) * size, size);
        fill_random(&f->buf[BUF_BIAS], p->bias_dtype, state);
    }
    if (p->features & ATT_SINKS)
        open_floats(f, BUF_SINKS, (size_t)p->heads_q, state);
    if (p->features & ATT_CU_SEQLENS_Q) {
        open_ints(f, BUF_CU_Q, p->batch + 1);
        fill_cu_seqlens(&f->buf[BUF_CU_Q], p->batch, p->total_q, p->seq_q);
    }
    if (p->features & ATT_CU_SEQLENS_K) {
        open_ints(f, BUF_CU_K, p->batch + 1);
        fill_cu_seqlens(&f->buf[BUF_CU_K], p->batch, p->total_k, p->seq_k);
    }
    if (p->features & ATT_LENS_K) {
        open_ints(f, BUF_LENS_K, p->batch);
        for (int64_t b = 0; b < p->batch; b++)
            ((int32_t *)(void *)f->buf[BUF_LENS_K].data)[b] = (int32_t)p->seq_k;
    }
    if (p->features & ATT_STARTS_K) {
        open_ints(f, BUF_STARTS_K, p->batch);
        for (int64_t b = 0; b < p->batch; b++)
            ((int32_t *)(void *)f->buf[BUF_STARTS_K].data)[b] =
                (int32_t)(b % 2 ? p->seq_k / 3 : 0);
    }
    if (p->features & ATT_Q_OFFSETS) {
        open_ints(f, BUF_Q_OFFSETS, p->batch);
        for (int64_t b = 0; b < p->batch; b++)
            ((int32_t *)(void *)f->buf[BUF_Q_OFFSETS].data)[b] = b % 2 ? 0 : 2;
    }
    if (p->features & ATT_K_OFFSETS) {
        open_ints(f, BUF_K_OFFSETS, p->batch);
        for (int64_t b = 0; b < p->batch; b++)
            ((int32_t *)(void *)f->buf[BUF_K_OFFSETS].data)[b] = 1;
    }
    if (paged(p)) {
        const int64_t columns = pages_per_sequence(p);
        int32_t page = (int32_t)p->num_pages;
        open_ints(f, BUF_PAGES, p->batch ? (p->batch - 1) * p->page_table_stride + columns : 0);
        for (int64_t b = 0; b < p->batch; b++)
            for (int64_t i = 0; i < columns; i++) {
                page = page > 0 ? page - 1 : (int32_t)p->num_pages - 1;
                ((int32_t *)(void *)f->buf[BUF_PAGES].data)[b * p->page_table_stride + i] =
                    page;
            }
    }
}

static void point_args(fixture *f) {
    f->args = (att_args){
        .size = sizeof f->args,
        .q = f->buf[BUF_Q].data,
        .k = f->buf[BUF_K].data,
        .v = f->buf[BUF_V].data,
        .o = f->buf[BUF_O].data,
        .lse = (float *)(void *)f->buf[BUF_LSE].data,
        .alibi = (const float *)(const void *)f->buf[BUF_ALIBI].data,
        .bias = f->buf[BUF_BIAS].data,
        .sinks = (const float *)(const void *)f->buf[BUF_SINKS].data,
        .cu_seqlens_q = (const int32_t *)(const void *)f->buf[BUF_CU_Q].data,
        .cu_seqlens_k = (const int32_t *)(const void *)f->buf[BUF_CU_K].data,
        .lens_k = (const int32_t *)(const void *)f->buf[BUF_LENS_K].data,
        .starts_k = (const int32_t *)(const void *)f->buf[BUF_STARTS_K].data,
        .q_offsets = (const int32_t *)(const void *)f->buf[BUF_Q_OFFSETS].data,
        .k_offsets = (const int32_t *)(const void *)f->buf[BUF_K_OFFSETS].data,
        .page_table = (const int32_t *)(const void *)f->buf[BUF_PAGES].data,
        .launch = &f->launch,
    };
}

void fixture_open(fixture *f, const att_problem *problem, uint64_t seed) {
    *f = (fixture){.problem = *problem};
    open_tensors(f, &seed);
    open_optional(f, &seed);
    point_args(f);
    fixture_poison(f);
}

void fixture_close(fixture *f) {
    for (int i = 0; i < BUF_COUNT; i++)
        guard_close(&f->buf[i]);
    guard_close(&f->workspace);
}

/* ---------------------------------------------------------------------- run */

void fixture_assert_intact(const fixture *f) {
    for (int i = 0; i < BUF_COUNT; i++)
        if (f->buf[i].map && !guard_intact(&f->buf[i]))
            fail_msg("the guard band of buffer %d was written", i);
    if (f->workspace.map && !guard_intact(&f->workspace))
        fail_msg("the guard band of the workspace was written");
}

att_status fixture_run(fixture *f, att_context *ctx) {
    att_plan *plan;
    att_status status = att_plan_create(&plan, ctx, &f->problem);
    if (status != ATT_OK)
        return status;
    const size_t bytes = att_plan_workspace(plan);
    guard_close(&f->workspace);
    f->workspace = guard_open(bytes, ATT_WORKSPACE_ALIGN);
    memset(f->workspace.data, 0xff,
           bytes); /* NaN in every float type: contents are arbitrary */
    status = att_plan_run(plan, &f->args, bytes ? f->workspace.data : NULL, NULL);
    att_plan_destroy(plan);
    fixture_assert_intact(f);
    return status;
}

void fixture_run_ok(fixture *f, att_context *ctx) {
    const att_status status = fixture_run(f, ctx);
    if (status != ATT_OK)
        fail_msg("%s: %s", att_status_name(status), att_last_error()->text);
}

void *fixture_copy(const fixture *f, int buffer) {
    void *copy = malloc(f->buf[buffer].bytes + 1);
    if (!copy)
        abort();
    memcpy(copy, f->buf[buffer].data, f->buf[buffer].bytes);
    return copy;
}

bool fixture_same(const fixture *f, int buffer, const void *copy) {
    return memcmp(f->buf[buffer].data, copy, f->buf[buffer].bytes) == 0;
}
