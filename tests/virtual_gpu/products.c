/* products.c: products of a warpgroup (wgmma). Each warp computes its 16 rows; in order, at any
 * time between issue and wait. */
#include <stdlib.h>

#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/product_operands.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/shared_memory.h"
#include "tests/virtual_gpu/warpgroup_log.h"

/* The destination of the warp's results of products in flight. Until then it holds poison. */
typedef struct accumulator {
    float *place[WARP_LANES];
    int columns;
    long last;     /* number of the last product that adds to it */
    float *values; /* [columns / 8][16][8] */
    struct accumulator *next;
} accumulator;

typedef struct product {
    long number, group;
    accumulator *results;
    bool is_bf16, a_shared, adds, ran;
    float sign; /* of the product: 1 or -1 */
    product_operand a, b;
    uint32_t a_registers[WARP_LANES][4];
    vgpu_range *ranges[2]; /* of shared memory that holds A and B */
    int ranges_count[2];
    vgpu_place at;
    const char *name;
    struct product *next;
} product;

typedef struct wgmma_warp {
    product *oldest, **end; /* not waited for */
    product *to_run;        /* the first that has not run */
    accumulator *accumulators;
    long issued, group;
    bool fenced, fenced_group; /* a fence since the last wait; since the last commit */
    warpgroup_log log;         /* the warpgroup's, in its first warp */
} wgmma_warp;

static wgmma_warp *state_of(vgpu_warp *warp) {
    if (warp->wgmma)
        return warp->wgmma;
    warp->wgmma = allocate_zeroed(1, sizeof *warp->wgmma);
    warp->wgmma->end = &warp->wgmma->oldest;
    return warp->wgmma;
}

warpgroup_log *warpgroup_log_of(vgpu_warp *first) {
    return &state_of(first)->log;
}

/* ---- accumulators ---- */

/* Finite; otherwise a kernel that recomputes non-finite results would repair it. */
static float poison(int i) {
    return 3.0f + 0.125f * (float)(i % 7);
}

/* Result i of a lane, in accumulator.values. */
static float *value_at(const accumulator *a, int lane, int i) {
    const int row = lane / 4 + i / 2 % 2 * 8, column = lane % 4 * 2 + i % 2;
    return &a->values[(i / 4 * PRODUCT_ROWS + row) * 8 + column];
}

static accumulator *find_accumulator(const wgmma_warp *w, const float *place) {
    accumulator *a = w->accumulators;
    while (a && a->place[0] != place)
        a = a->next;
    return a;
}

static accumulator *take_accumulator(vgpu_warp *warp, int columns) {
    accumulator *a = allocate(sizeof *a);
    float *values = allocate_zeroed((size_t)(PRODUCT_ROWS * columns), sizeof *values);
    *a = (accumulator){.columns = columns, .values = values, .next = warp->wgmma->accumulators};
    warp->wgmma->accumulators = a;
    for (int l = 0; l < WARP_LANES; l++) {
        const ptx_frame *f = ptx_frame_of(warp, l);
        a->place[l] = ptx_place(f, 0);
        for (int i = 0; i < columns / 2; i++) {
            if ((float *)ptx_place(f, i) != a->place[l] + i)
                vgpu_fail(CHECK_INSTRUCTION, "%s: its results are not an array",
                          f->instruction->name);
            *value_at(a, l, i) = a->place[l][i];
            a->place[l][i] = poison(i);
        }
    }
    return a;
}

static void give_back(wgmma_warp *w, accumulator *a, const product *p) {
    for (int l = 0; l < WARP_LANES; l++)
        for (int i = 0; i < a->columns / 2; i++) {
            const float expected = poison(i);
            if (memcmp(&a->place[l][i], &expected, sizeof expected) != 0)
                vgpu_fail(
                    CHECK_ACCUMULATOR,
                    "lane %d wrote result %d of the product at %s:%d while it was in flight", l,
                    i, p->at.file, p->at.line);
            a->place[l][i] = *value_at(a, l, i);
        }
    accumulator **link = &w->accumulators;
    while (*link != a)
        link = &(*link)->next;
    *link = a->next;
    free(a->values);
    free(a);
}

/* ---- issue ---- */

/* Words: results; A, a descriptor or 4 registers; B; whether D is added; signs of A and B;
 * whether A (of a descriptor) and B are MN-major. */
typedef struct layout {
    int columns, a, b, adds, signs, majors;
    bool a_shared;
} layout;

static layout layout_of(const ptx_frame *f) {
    const ptx_instruction *in = f->instruction;
    const int columns = in->number;
    if (columns < 8 || columns > PRODUCT_COLUMNS_MAX || columns % 8 != 0 ||
        in->count < columns / 2 + 7)
        vgpu_fail(CHECK_INSTRUCTION, "%s (%s:%d): unknown shape or number of operands",
                  in->name, f->statement->file, f->statement->line);
    const bool a_shared = !in->words[columns / 2].in_braces;
    const int b = columns / 2 + (a_shared ? 1 : 4);
    if (in->count != b + 4 + (a_shared ? 2 : 1))
        ptx_fail_operand(f, b);
    return (layout){columns, columns / 2, b, b + 1, b + 2, b + 4, a_shared};
}

static void check_lanes(const vgpu_warp *warp, const layout *w) {
    const ptx_frame *first = ptx_frame_of(warp, 0);
    for (int l = 1; l < WARP_LANES; l++) {
        const ptx_frame *f = ptx_frame_of(warp, l);
        if (ptx_get(f, w->b) != ptx_get(first, w->b) ||
            ptx_get(f, w->adds) != ptx_get(first, w->adds) ||
            (w->a_shared && ptx_get(f, w->a) != ptx_get(first, w->a)))
            vgpu_fail(CHECK_CONVERGENCE, "%s: operands of lane %d differ from those of lane 0",
                      first->instruction->name, l);
    }
}

static void check_warpgroup(vgpu_warp *warp, const layout *w) {
    const ptx_frame *f = ptx_frame_of(warp, 0);
    const warpgroup_event event = {
        .instruction = f->instruction,
        .values = {w->a_shared ? ptx_get(f, w->a) : 0, ptx_get(f, w->b), ptx_get(f, w->adds)}};
    warpgroup_agree(warp, &event);
}

static void check_fences(const wgmma_warp *w, const product *p, bool is_new) {
    if (!w->fenced)
        vgpu_fail(CHECK_ACCUMULATOR,
                  "%s without wgmma.fence since the warp's start or its last wgmma.wait_group",
                  p->name);
    if (!w->fenced_group && (is_new || !p->a_shared))
        vgpu_fail(
            CHECK_ACCUMULATOR,
            "%s uses registers that may have been written, without wgmma.fence since the last "
            "wgmma.commit_group",
            p->name);
}

static float sign_of(const ptx_frame *f, int word) {
    const int64_t sign = (int32_t)ptx_get(f, word);
    if (sign != 1 && sign != -1)
        ptx_fail_operand(f, word);
    return (float)sign;
}

static void read_operands(const vgpu_warp *warp, const layout *w, product *p) {
    const ptx_frame *f = ptx_frame_of(warp, 0);
    const int rows = PRODUCT_ROWS * (warp->index % WARPGROUP_WARPS);
    p->a_shared = w->a_shared;
    p->adds = ptx_get(f, w->adds) != 0;
    p->sign = sign_of(f, w->signs) * sign_of(f, w->signs + 1);
    p->b = product_operand_of(warp->block, ptx_get(f, w->b),
                              ptx_get(f, f->instruction->count - 1) != 0, 0, w->columns);
    if (w->a_shared)
        p->a = product_operand_of(warp->block, ptx_get(f, w->a), ptx_get(f, w->majors) != 0,
                                  rows, PRODUCT_ROWS);
    for (int l = 0; l < WARP_LANES && !w->a_shared; l++)
        for (int i = 0; i < 4; i++)
            p->a_registers[l][i] = (uint32_t)ptx_get(ptx_frame_of(warp, l), w->a + i);
}

static void touch_sources(const vgpu_warp *warp, const product *p) {
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < p->ranges_count[o]; i++)
            shared_touch(warp->lanes[0], p->ranges[o][i].address, p->ranges[o][i].bytes,
                         SHARED_ASYNC_READ, p->name);
}

/* Nobody may overwrite A and B until the wait. */
static void hold_sources(const vgpu_warp *warp, product *p) {
    if (p->a_shared)
        p->ranges[0] = product_ranges(&p->a, &p->ranges_count[0]);
    p->ranges[1] = product_ranges(&p->b, &p->ranges_count[1]);
    touch_sources(warp, p);
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < p->ranges_count[o]; i++)
            shared_hold(p->ranges[o][i].address, p->ranges[o][i].bytes);
}

static void free_product(product *p) {
    free(p->ranges[0]);
    free(p->ranges[1]);
    free(p);
}

static void append(wgmma_warp *w, product *p) {
    *w->end = p;
    w->end = &p->next;
    if (!w->to_run)
        w->to_run = p;
}

static void issue(vgpu_warp *warp) {
    wgmma_warp *w = state_of(warp);
    const ptx_frame *f = ptx_frame_of(warp, 0);
    const layout words = layout_of(f);
    check_lanes(warp, &words);
    check_warpgroup(warp, &words);
    product *p = allocate_zeroed(1, sizeof *p);
    *p = (product){.number = w->issued++,
                   .group = w->group,
                   .is_bf16 = f->instruction->choice[0],
                   .at = warp->lanes[0]->at,
                   .name = f->instruction->name};
    read_operands(warp, &words, p);
    p->results = find_accumulator(w, ptx_place(f, 0));
    check_fences(w, p, !p->results);
    hold_sources(warp, p);
    if (!p->results)
        p->results = take_accumulator(warp, words.columns);
    else if (p->results->columns != words.columns)
        vgpu_fail(CHECK_ACCUMULATOR, "%s: its results are in flight with %d columns", p->name,
                  p->results->columns);
    p->results->last = p->number;
    append(w, p);
}

/* ---- computing ---- */

static void spread_registers(const product *p, float (*a)[PRODUCT_DEPTH][8]) {
    for (int l = 0; l < WARP_LANES; l++)
        for (int i = 0; i < 8; i++) {
            const uint16_t x = (uint16_t)(p->a_registers[l][i / 2] >> 16 * (i % 2));
            a[i / 2 % 2][l % 4 * 2 + i / 4 * 8 + i % 2][l / 4] = small_to_float(x, p->is_bf16);
        }
}

static void compute(const product *p) {
    static float a[PRODUCT_ROWS / 8][PRODUCT_DEPTH][8],
        b[PRODUCT_COLUMNS_MAX / 8][PRODUCT_DEPTH][8];
    if (p->a_shared)
        product_read(&p->a, p->is_bf16, a);
    else
        spread_registers(p, a);
    product_read(&p->b, p->is_bf16, b);
    for (int block = 0; block < p->results->columns / 8; block++)
        for (int row = 0; row < PRODUCT_ROWS; row++) {
            float *d = &p->results->values[(block * PRODUCT_ROWS + row) * 8], sum[8] = {0};
            for (int k = 0; k < PRODUCT_DEPTH; k++) {
                const float x = p->sign * a[row / 8][k][row % 8];
                for (int c = 0; c < 8; c++)
                    sum[c] += x * b[block][k][c];
            }
            for (int c = 0; c < 8; c++)
                d[c] = p->adds ? d[c] + sum[c] : sum[c];
        }
}

bool wgmma_has_work(const vgpu_warp *warp) {
    return warp->wgmma && warp->wgmma->to_run;
}

bool wgmma_run_any(vgpu_warp *warp) {
    if (!wgmma_has_work(warp))
        return false;
    product *p = warp->wgmma->to_run;
    touch_sources(warp, p);
    compute(p);
    p->ran = true;
    warp->wgmma->to_run = p->next;
    return true;
}

/* ---- fence, commit and wait ---- */

static void finish_oldest(vgpu_warp *warp) {
    wgmma_warp *w = warp->wgmma;
    product *p = w->oldest;
    while (!p->ran)
        wgmma_run_any(warp);
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < p->ranges_count[o]; i++)
            shared_release(p->ranges[o][i].address, p->ranges[o][i].bytes);
    if (p->results->last == p->number)
        give_back(w, p->results, p);
    w->oldest = p->next;
    if (!w->oldest)
        w->end = &w->oldest;
    free_product(p);
}

static void wait(vgpu_warp *warp) {
    wgmma_warp *w = state_of(warp);
    const long left = (long)ptx_get(ptx_frame_of(warp, 0), 0);
    while (w->oldest && w->oldest->group < w->group - left)
        finish_oldest(warp);
    w->fenced = false;
}

static void commit(vgpu_warp *warp) {
    wgmma_warp *w = state_of(warp);
    w->group++;
    w->fenced_group = false;
}

static void fence(vgpu_warp *warp) {
    wgmma_warp *w = state_of(warp);
    w->fenced = w->fenced_group = true;
}

static void mma_async(ptx_frame *f) {
    ptx_meet(f, issue);
}

static void wait_group(ptx_frame *f) {
    ptx_meet(f, wait);
}

static void commit_group(ptx_frame *f) {
    ptx_meet(f, commit);
}

static void fence_registers(ptx_frame *f) {
    ptx_meet(f, fence);
}

/* ---- the end ---- */

void wgmma_lane_ended(vgpu_lane *lane) {
    vgpu_warp *warp = lane->warp;
    if (!warp->wgmma)
        return;
    if (warp->wgmma->oldest)
        vgpu_fail(CHECK_LIFETIME, "a warp ends while its product of %s:%d is in flight",
                  warp->wgmma->oldest->at.file, warp->wgmma->oldest->at.line);
    if ((warp->live & ~(1u << lane->index)) == 0)
        warpgroup_ended(warp);
}

void wgmma_free(vgpu_warp *warp) {
    wgmma_warp *w = warp->wgmma;
    if (!w)
        return;
    while (w->oldest) {
        product *p = w->oldest;
        w->oldest = p->next;
        free_product(p);
    }
    while (w->accumulators) {
        accumulator *a = w->accumulators;
        w->accumulators = a->next;
        free(a->values);
        free(a);
    }
    warpgroup_log_free(&w->log);
    free(w);
    warp->wgmma = NULL;
}

const ptx_row ptx_products[] = {
    {"wgmma.mma_async.sync.aligned.m64n#k16.f32(.f16.f16|.bf16.bf16)", mma_async, 0, 10, 192},
    {"wgmma.fence.sync.aligned", fence_registers, 0, 0, 0},
    {"wgmma.commit_group.sync.aligned", commit_group, 0, 0, 0},
    {"wgmma.wait_group.sync.aligned", wait_group, 0, 1, 1},
    {0},
};
