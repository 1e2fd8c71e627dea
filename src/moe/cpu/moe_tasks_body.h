/* moe_tasks_body.h: the two steps of a run with vectors: columns of h, then columns of y. */
#ifndef ATT_MOE_CPU_TASKS_BODY_H
#define ATT_MOE_CPU_TASKS_BODY_H

#include "moe/cpu/moe_activation_body.h"
#include "moe/cpu/moe_combine_body.h"
#include "moe/cpu/moe_experts.h"
#include "moe/cpu/moe_product_body.h"

/* For moe_kernel_body.h. */
enum { TAKES_TRANSPOSED = 1, POSITION_ALIGN = 1, BLOCK_LEAST = 32, BLOCK_MOST = 64 };

/* The layout of a thread's scratch: sums and panel of a product; then, for the first step, gate
 * and up of TOKENS_MOST tokens and their biases, or, for the second, the parts of y. */
typedef struct scratch_places {
    float *sums, *panel, *rest;
} scratch_places;

static int64_t block_of(const att_moe_cut *cut) {
    return att_max(cut->inner_block, cut->hidden_block);
}

static scratch_places places_of(const att_moe_job *job, void *scratch) {
    float *at = scratch;
    const int64_t sums = product_sums(2 * block_of(job->cut));
    return (scratch_places){.sums = at, .panel = at + sums, .rest = at + sums + PRODUCT_PANEL};
}

static size_t tasks_scratch(const att_moe_problem *p, const att_moe_cut *cut) {
    const int64_t first = (TOKENS_MOST + 1) * 4 * cut->inner_block;
    const int64_t second = cut->positions * cut->hidden_block;
    (void)p;
    return sizeof(float) *
           (size_t)(product_sums(2 * block_of(cut)) + PRODUCT_PANEL + att_max(first, second));
}

static size_t h_bytes(const att_moe_problem *p) {
    return (size_t)p->inner * sizeof(operand);
}

/* --------------------------------------------------------------- columns of h */

/* One block of columns of h of some positions. */
typedef struct h_block {
    const att_moe_job *job;
    att_moe_matrix gate, up; /* the block's own columns */
    int64_t begin, columns;
    float *gates, *ups; /* per token, `columns` after `columns` */
    float *mixed;       /* gate and up interleaved, if stored so in columns */
    float *biases;      /* of the gate, then of up */
    product product;
} h_block;

static void multiply_matrix(h_block *b, const att_moe_matrix *m, int64_t columns, float *out) {
    b->product.w = m->w;
    b->product.step = m->step;
    b->product.columns = columns;
    b->product.out = out;
    b->product.out_step = columns;
    multiply(&b->product);
}

/* Gate and up share the last axis: one product of both, then separated. */
static void multiply_mixed(h_block *b) {
    const int64_t columns = b->columns;
    multiply_matrix(b, &b->gate, 2 * columns, b->mixed);
    for (int64_t n = 0; n < b->product.tokens * columns; n++) {
        b->gates[n] = b->mixed[2 * n];
        b->ups[n] = b->mixed[2 * n + 1];
    }
}

static void load_biases(const h_block *b) {
    att_moe_load_bias(&b->gate, b->columns, b->biases);
    att_moe_load_bias(&b->up, b->columns, b->biases + b->columns);
}

static void activate_row(const h_block *b, int64_t token, operand *h) {
    const att_moe_problem *p = b->job->p;
    const float *g = b->gates + token * b->columns, *u = b->ups + token * b->columns;
    for (int64_t c = 0; c < b->columns; c += VF_W) {
        const int64_t count = att_min(b->columns - c, VF_W);
        vf gate = vf_load_as(g + c, ATT_F32, count);
        vf up = att_moe_is_gated(p) ? vf_load_as(u + c, ATT_F32, count) : gate;
        if (p->features & ATT_MOE_BIAS1) {
            gate = vf_add(gate, vf_load_as(b->biases + c, ATT_F32, count));
            up = vf_add(up, vf_load_as(b->biases + b->columns + c, ATT_F32, count));
        }
        store_operands(h + c, p->dtype, vf_activate(p, gate, up), count);
    }
}

/* Positions [begin, begin + tokens), at most TOKENS_MOST. */
static void fill_h(h_block *b, int64_t begin, int64_t tokens) {
    const att_moe_job *job = b->job;
    const att_moe_problem *p = job->p;
    const operand *x[TOKENS_MOST];
    for (int64_t i = 0; i < tokens; i++)
        x[i] = att_moe_x_row(job, att_moe_token_at(job, begin + i));
    b->product.x = x;
    b->product.tokens = tokens;
    if (att_moe_shares_columns(p)) {
        multiply_mixed(b);
    } else {
        multiply_matrix(b, &b->gate, b->columns, b->gates);
        if (att_moe_is_gated(p))
            multiply_matrix(b, &b->up, b->columns, b->ups);
    }
    for (int64_t i = 0; i < tokens; i++)
        activate_row(b, i, (operand *)job->h + (begin + i) * p->inner + b->begin);
}

static void run_first(const att_moe_job *job, int64_t task, void *scratch) {
    const att_moe_problem *p = job->p;
    const int64_t blocks = job->cut->inner_blocks, block = job->cut->inner_block;
    const int64_t e = job->active[task / blocks], begin = task % blocks * block;
    const scratch_places at = places_of(job, scratch);
    const int64_t room = TOKENS_MOST * block;
    h_block b = {.job = job,
                 .gate = att_moe_gate_of(p, job->a, e, begin),
                 .up = att_moe_up_of(p, job->a, e, begin),
                 .begin = begin,
                 .columns = att_min(block, p->inner - begin),
                 .gates = at.rest,
                 .ups = at.rest + room,
                 .mixed = at.rest + 2 * room,
                 .biases = at.rest + 4 * room,
                 .product = {.dtype = p->dtype,
                             .transposed = p->flags & ATT_MOE_TRANSPOSED,
                             .depth = p->hidden,
                             .sums = at.sums,
                             .panel = at.panel}};
    if (p->features & ATT_MOE_BIAS1)
        load_biases(&b);
    const int64_t end = job->starts[e] + job->lengths[e];
    for (int64_t n = job->starts[e]; n < end; n += TOKENS_MOST)
        fill_h(&b, n, att_min(TOKENS_MOST, end - n));
}

/* --------------------------------------------------------------- columns of y */

static void multiply_expert(const att_moe_job *job, int64_t e, int64_t begin, int64_t columns,
                            const scratch_places *at) {
    const att_moe_problem *p = job->p;
    const att_moe_matrix down = att_moe_down_of(p, job->a, e, begin);
    const int64_t end = job->starts[e] + job->lengths[e];
    const operand *h[TOKENS_MOST];
    product q = {.x = h,
                 .w = down.w,
                 .step = down.step,
                 .dtype = p->dtype,
                 .transposed = p->flags & ATT_MOE_TRANSPOSED,
                 .columns = columns,
                 .depth = p->inner,
                 .out_step = columns,
                 .sums = at->sums,
                 .panel = at->panel};
    for (int64_t n = job->starts[e]; n < end; n += TOKENS_MOST) {
        q.tokens = att_min(TOKENS_MOST, end - n);
        q.out = at->rest + n * columns;
        for (int64_t i = 0; i < q.tokens; i++)
            h[i] = (const operand *)job->h + (n + i) * p->inner;
        multiply(&q);
    }
}

static void run_second(const att_moe_job *job, int64_t task, void *scratch) {
    const int64_t block = job->cut->hidden_block, begin = task * block;
    const int64_t columns = att_min(block, job->p->hidden - begin);
    const scratch_places at = places_of(job, scratch);
    for (int64_t n = 0; n < job->active_count; n++)
        multiply_expert(job, job->active[n], begin, columns, &at);
    combine_tokens(job, begin, columns, at.rest, columns);
}

#endif
