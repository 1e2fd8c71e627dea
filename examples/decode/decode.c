/* decode.c: the attention of a serving engine: continuous batching over a paged K/V cache.
 *
 *     make && ./decode
 *
 * Requests of different lengths join a running batch as soon as there are a slot and pages for
 * them, generate one token per step, and leave when they are done. If the pages run out, the
 * request that joined last goes back into the queue and is recomputed later. Every row of every
 * layer is checked against the formula in float64; only att_plan_run() is timed.
 *
 * It runs on the CPU. On a GPU the calls are the same; pages, tables, Q and O are then device
 * memory, and the step's tables are copied to it on the stream of the run. */
#include <assert.h>
#include <attest.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "paged_cache.h"
#include "toy_model.h"

enum {
    REQUESTS = 24,
    SLOTS = 6,      /* sequences running at once */
    LONGEST = 192,  /* tokens of a sequence, prompt and answer */
    PAGE_SIZE = 16, /* keys */
    NUM_PAGES = 36, /* half of what SLOTS sequences of maximum length would need */
    TABLE = LONGEST / PAGE_SIZE,
    ROWS = SLOTS * LONGEST /* queries of the largest step: all join at full length */
};
static_assert(LONGEST % PAGE_SIZE == 0, "a table has room for whole pages");
static_assert(NUM_PAGES >= TABLE, "a sequence that runs alone always has room");

static const double bar = 0.01; /* errors of bfloat16 weights, as AMX rounds them, stay well
                                 * below */

typedef struct sequence {
    int token[LONGEST];
    int count;  /* number of tokens: the prompt, then the answer so far */
    int cached; /* how many of them have K and V in the cache */
    int wanted; /* number of tokens at which it is done */
    int32_t page_id[TABLE];
    page_list pages;
} sequence;

/* The inputs and outputs of a run, row by row for all sequences of the step. */
typedef struct batch {
    uint16_t q[ROWS][HEADS_Q * D];
    float o[ROWS][HEADS_Q * D];
    int32_t cu_seqlens_q[SLOTS + 1]; /* rows of sequence i: from [i] to [i + 1] */
    int32_t lens_k[SLOTS];
    int32_t page_table[SLOTS][TABLE];
} batch;

/* Steps in which a sequence joins have many rows for it; other steps have one row per
 * sequence. */
enum { MIXED, DECODE, KINDS };

typedef struct engine {
    att_context *context;
    att_plan *plans[KINDS][SLOTS + 1]; /* by the number of sequences */
    void *workspace;                   /* for the plan that needs the most; runs take turns */
    size_t workspace_size;
    paged_cache cache;
    batch now;
    sequence requests[REQUESTS];
    sequence *waiting[REQUESTS], *running[SLOTS]; /* waiting: a stack, the next one on top */
    int waiting_count, running_count;
    int steps, sent_back;
    long tokens[KINDS];
    double seconds[KINDS], worst;
} engine;

static bool ok(att_status status, const char *call) {
    if (status != ATT_OK)
        fprintf(stderr, "%s: %s: %s\n", call, att_status_name(status), att_last_error()->text);
    return status == ATT_OK;
}

/* ------------------------------------------------------------------- opening */

/* One plan is used for every step of its shape: lengths and pages are data, not part of a
 * plan. */
static bool make_plan(engine *e, int kind, int sequences) {
    att_problem p;
    att_problem_init(&p, sequences, HEADS_Q, HEADS_KV, kind == DECODE ? 1 : LONGEST, LONGEST, D,
                     D, ATT_BF16);
    p.dtype_o = ATT_F32;
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT; /* the last row of a sequence sees all its keys */
    p.features = ATT_LENS_K | ATT_PAGED;
    p.page_size = PAGE_SIZE;
    p.num_pages = NUM_PAGES;
    if (kind == MIXED) {
        p.features |= ATT_CU_SEQLENS_Q;
        p.total_q = ROWS;
    }
    att_problem_layout_bshd(
        &p); /* after the features: the strides of K and V are now those of pages */
    att_plan **plan = &e->plans[kind][sequences];
    if (!ok(att_plan_create(plan, e->context, &p), "att_plan_create"))
        return false;
    if (att_plan_workspace(*plan) > e->workspace_size)
        e->workspace_size = att_plan_workspace(*plan);
    return true;
}

/* Everything is allocated here; the loop allocates nothing. */
static bool open_engine(engine *e) {
    const att_context_options options = {.size = sizeof options, .device = ATT_DEVICE_CPU};
    if (!ok(att_context_create(&e->context, &options), "att_context_create"))
        return false;
    for (int kind = 0; kind < KINDS; kind++)
        for (int n = 1; n <= SLOTS; n++)
            if (!make_plan(e, kind, n))
                return false;
    e->workspace = aligned_alloc(ATT_WORKSPACE_ALIGN, e->workspace_size);
    if ((!e->workspace && e->workspace_size > 0) ||
        !cache_open(&e->cache, LAYERS, NUM_PAGES, PAGE_SIZE, HEADS_KV * D)) {
        fprintf(stderr, "no memory\n");
        return false;
    }
    return true;
}

static void close_engine(engine *e) {
    cache_close(&e->cache);
    free(e->workspace);
    for (int kind = 0; kind < KINDS; kind++)
        for (int n = 1; n <= SLOTS; n++)
            att_plan_destroy(e->plans[kind][n]);
    att_context_destroy(e->context);
}

/* Prompts of 5 to 100 tokens, answers of 4 to 91; the first request is on top of the stack. */
static void make_requests(engine *e) {
    for (int i = REQUESTS - 1; i >= 0; i--) {
        sequence *s = &e->requests[i];
        s->count = 5 + 37 * i % 96;
        s->wanted = s->count + 4 + 29 * i % 88;
        s->pages.id = s->page_id;
        for (int j = 0; j < s->count; j++)
            s->token[j] = (101 * i + 7 * j) % VOCABULARY;
        e->waiting[e->waiting_count++] = s;
    }
}

/* ---------------------------------------------------------------- scheduling */

/* Let sequences join while there are slots and pages for them. One page per running sequence
 * stays free for growth; otherwise the one that joins would soon be sent back. */
static void admit(engine *e) {
    while (e->waiting_count > 0 && e->running_count < SLOTS) {
        sequence *s = e->waiting[e->waiting_count - 1];
        if (cache_pages(&e->cache, s->count) + e->running_count > e->cache.free_count)
            return;
        cache_reserve(&e->cache, &s->pages, s->count);
        e->running[e->running_count++] = s;
        e->waiting_count--;
    }
}

/* The sequence that joined last gives its pages to the others. Its tokens stay; K and V do
 * not. */
static void send_back(engine *e) {
    sequence *s = e->running[--e->running_count];
    cache_release(&e->cache, &s->pages);
    s->cached = 0;
    e->waiting[e->waiting_count++] = s;
    e->sent_back++;
}

/* Give every sequence the page for its new token, if that begins a new page. */
static void reserve(engine *e) {
    for (int i = 0; i < e->running_count; i++)
        while (i < e->running_count &&
               !cache_reserve(&e->cache, &e->running[i]->pages, e->running[i]->count))
            send_back(e);
}

/* Finished sequences leave; the others move up, in the order in which they joined. */
static void retire(engine *e) {
    int kept = 0;
    for (int i = 0; i < e->running_count; i++) {
        sequence *s = e->running[i];
        if (s->count < s->wanted)
            e->running[kept++] = s;
        else
            cache_release(&e->cache, &s->pages);
    }
    e->running_count = kept;
}

/* -------------------------------------------------------------------- a step */

/* The tables of the step, the same for every layer. Entries of the page table past the pages of
 * a sequence are never read. */
static int fill_tables(engine *e) {
    int kind = DECODE;
    for (int i = 0; i < e->running_count; i++) {
        const sequence *s = e->running[i];
        const int rows = s->count - s->cached;
        if (rows > 1)
            kind = MIXED;
        e->now.cu_seqlens_q[i + 1] = e->now.cu_seqlens_q[i] + rows;
        e->now.lens_k[i] = s->count; /* including the keys of this step: they see each other */
        for (int page = 0; page < s->pages.count; page++)
            e->now.page_table[i][page] = s->page_id[page];
    }
    return kind;
}

/* K and V of the new tokens go to the cache, their queries to the batch. */
static void fill_rows(engine *e, int layer) {
    for (int i = 0; i < e->running_count; i++) {
        const sequence *s = e->running[i];
        for (int j = s->cached; j < s->count; j++) {
            const int row = e->now.cu_seqlens_q[i] + j - s->cached;
            const size_t at = cache_key(&e->cache, layer, &s->pages, j);
            model_key_value(e->cache.k + at, e->cache.v + at, layer, s->token[j], j);
            model_query(e->now.q[row], layer, s->token[j], j, e->now.o[row]);
        }
    }
}

static double seconds_now(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool run_layer(engine *e, int kind, int layer) {
    const att_args args = {
        .size = sizeof args,
        .q = e->now.q,
        .k = e->cache.k + cache_layer(&e->cache, layer),
        .v = e->cache.v + cache_layer(&e->cache, layer),
        .o = e->now.o,
        .cu_seqlens_q = kind == MIXED ? e->now.cu_seqlens_q : NULL,
        .lens_k = e->now.lens_k,
        .page_table = e->now.page_table[0],
        .workspace_size = e->workspace_size,
    };
    const double started = seconds_now();
    const att_status status =
        att_plan_run(e->plans[kind][e->running_count], &args, e->workspace, NULL);
    e->seconds[kind] += seconds_now() - started;
    return ok(status, "att_plan_run");
}

static void check_layer(engine *e, int layer) {
    for (int i = 0; i < e->running_count; i++) {
        const sequence *s = e->running[i];
        for (int j = s->cached; j < s->count; j++) {
            const int row = e->now.cu_seqlens_q[i] + j - s->cached;
            const double error =
                model_error(e->now.q[row], e->now.o[row], layer, s->token, j + 1);
            if (error > e->worst)
                e->worst = error;
        }
    }
}

/* Generate one token for every running sequence. */
static bool step(engine *e) {
    reserve(e);
    const int kind = fill_tables(e);
    for (int layer = 0; layer < LAYERS; layer++) {
        fill_rows(e, layer);
        if (!run_layer(e, kind, layer))
            return false;
        check_layer(e, layer);
    }
    for (int i = 0; i < e->running_count; i++) {
        sequence *s = e->running[i];
        s->cached = s->count;
        s->token[s->count++] = model_next(e->now.o[e->now.cu_seqlens_q[i + 1] - 1]);
    }
    e->tokens[kind] += e->now.cu_seqlens_q[e->running_count];
    e->steps++;
    retire(e);
    return true;
}

/* -------------------------------------------------------------------- report */

static void report(const engine *e) {
    static const char *const names[KINDS] = {"mixed", "decode"};
    printf("%d requests, at most %d at once: %d steps, %d sent back for lack of pages\n",
           REQUESTS, SLOTS, e->steps, e->sent_back);
    printf("pages    %d of %d keys, %d in use at most, %d now\n", NUM_PAGES, PAGE_SIZE,
           NUM_PAGES - e->cache.least_free, NUM_PAGES - e->cache.free_count);
    for (int kind = 0; kind < KINDS; kind++)
        printf("%-8s %6ld tokens, %8.0f tokens/s in the attention of %d layers (%s)\n",
               names[kind], e->tokens[kind], (double)e->tokens[kind] / e->seconds[kind], LAYERS,
               att_plan_kernel(e->plans[kind][SLOTS]));
    printf("check    largest error %.2g, the bar is %g: %s\n", e->worst, bar,
           e->worst <= bar ? "holds" : "WRONG");
}

int main(void) {
    static engine e;
    make_requests(&e);
    bool held = open_engine(&e);
    while (held && e.waiting_count + e.running_count > 0) {
        admit(&e);
        held = step(&e);
    }
    if (held) {
        report(&e);
        held = e.worst <= bar && e.cache.free_count == NUM_PAGES;
    }
    close_engine(&e);
    return held ? 0 : 1;
}
