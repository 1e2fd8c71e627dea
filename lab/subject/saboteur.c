/* saboteur.c: the table of saboteurs, and what each does around an honest plan. */
#include "lab/subject/saboteur.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "attention/problem.h"
#include "base/dtype.h"
#include "lab/subject/saboteur_hands.h"
#include "lab/tensors/buffer.h"

/* Answers that a saboteur keeps at most, and calls for which one that fears verification is honest. */
enum { KEPT_MOST = 16, HONEST_CALLS = 3 };

typedef struct kept_answer {
    const void *q, *o;
    uint64_t inputs; /* a hash */
    void *copy;
} kept_answer;

/* A saboteur made ready. */
typedef struct plot {
    const lab_saboteur *saboteur;
    att_problem problem;
    att_extents bytes;
    att_plan *plan;
    lab_hands hands;
    long calls;
    kept_answer kept[KEPT_MOST];
    size_t kept_count;
    void *scratch[3]; /* copies of Q, K and V, or leftovers */
    void *side;       /* a stream */
    pthread_t thread; /* at work after the run has returned */
    bool working;
    att_args args;
    void *workspace;
} plot;

typedef bool deed(plot *p, const att_args *args, void *workspace, void *stream);

struct lab_saboteur {
    const char *name, *text;
    bool honest, cpu, gpu;
    deed *run;
    deed *direct; /* NULL: none */
    void (*twist)(
        att_problem *problem); /* what it plans in place of what is asked; NULL: that */
};

static bool compute(plot *p, const att_args *args, void *workspace, void *stream) {
    return att_plan_run(p->plan, args, workspace, stream) == ATT_OK;
}

/* ------------------------------------------------------------------------- no work */

static bool do_nothing(plot *p, const att_args *args, void *workspace, void *stream) {
    (void)p, (void)args, (void)workspace, (void)stream;
    return true;
}

static bool keep_finished(plot *p, const att_args *args, void *workspace, void *stream) {
    return isfinite(att_load(args->o, p->problem.dtype_o, 0)) ||
           compute(p, args, workspace, stream);
}

/* -------------------------------------------------------------------- kept answers */

static bool remember(plot *p, const att_args *args, uint64_t inputs, void *stream) {
    if (p->kept_count == KEPT_MOST)
        return true;
    kept_answer *k = &p->kept[p->kept_count];
    *k = (kept_answer){args->q, args->o, inputs, lab_hands_take(&p->hands, (size_t)p->bytes.o)};
    p->kept_count += k->copy != NULL;
    return k->copy && lab_hands_copy(&p->hands, k->copy, args->o, (size_t)p->bytes.o, stream);
}

static bool by_pointer(plot *p, const att_args *args, void *workspace, void *stream) {
    for (size_t i = 0; i < p->kept_count; i++)
        if (p->kept[i].q == args->q && p->kept[i].o == args->o)
            return lab_hands_copy(&p->hands, args->o, p->kept[i].copy, (size_t)p->bytes.o,
                                  stream);
    return compute(p, args, workspace, stream) && remember(p, args, 0, stream);
}

static bool by_contents(plot *p, const att_args *args, void *workspace, void *stream) {
    uint64_t hash = lab_hash(1, args->q, (size_t)p->bytes.q);
    hash = lab_hash(hash, args->k, (size_t)p->bytes.k);
    hash = lab_hash(hash, args->v, (size_t)p->bytes.v);
    for (size_t i = 0; i < p->kept_count; i++)
        if (p->kept[i].inputs == hash)
            return lab_hands_copy(&p->hands, args->o, p->kept[i].copy, (size_t)p->bytes.o,
                                  stream);
    if (p->kept_count == KEPT_MOST) { /* the oldest goes */
        kept_answer *k = &p->kept[(size_t)p->calls % KEPT_MOST];
        k->inputs = hash;
        return compute(p, args, workspace, stream) &&
               lab_hands_copy(&p->hands, k->copy, args->o, (size_t)p->bytes.o, stream);
    }
    return compute(p, args, workspace, stream) && remember(p, args, hash, stream);
}

/* Memory that somebody else has used, the harness's oracle among them, may hold the answer. */
static bool from_leftovers(plot *p, const att_args *args, void *workspace, void *stream) {
    (void)workspace;
    if (!p->scratch[0])
        p->scratch[0] = lab_hands_take(&p->hands, (size_t)p->bytes.o);
    return p->scratch[0] &&
           lab_hands_copy(&p->hands, args->o, p->scratch[0], (size_t)p->bytes.o, stream);
}

/* ------------------------------------------------------------------- work elsewhere */

static bool on_a_side_stream(plot *p, const att_args *args, void *workspace, void *stream) {
    (void)stream;
    return (p->side || lab_hands_stream(&p->hands, &p->side)) &&
           compute(p, args, workspace, p->side);
}

static void *work_late(void *argument) {
    plot *p = argument;
    att_plan_run(p->plan, &p->args, p->workspace, NULL);
    return NULL;
}

static void wait_for_thread(plot *p) {
    if (p->working)
        pthread_join(p->thread, NULL);
    p->working = false;
}

static bool in_a_late_thread(plot *p, const att_args *args, void *workspace, void *stream) {
    (void)stream;
    wait_for_thread(p);
    p->args = *args;
    p->workspace = workspace;
    p->working = pthread_create(&p->thread, NULL, work_late, p) == 0;
    return p->working;
}

/* ------------------------------------------------------------------- another problem */

static void without_scale(att_problem *q) {
    q->scale = 0.0f; /* every key weighs the same */
}

static void align_otherwise(att_problem *q) {
    q->causal =
        q->causal == ATT_CAUSAL_TOP_LEFT ? ATT_CAUSAL_BOTTOM_RIGHT : ATT_CAUSAL_TOP_LEFT;
}

/* ------------------------------------------------------------------------ precision */

/* Copies of Q, K and V, and arguments that point to them. */
static bool copy_inputs(plot *p, att_args *copied, const att_args *args, void *stream) {
    const void *from[3] = {args->q, args->k, args->v};
    const int64_t bytes[3] = {p->bytes.q, p->bytes.k, p->bytes.v};
    for (int i = 0; i < 3; i++) {
        if (!p->scratch[i])
            p->scratch[i] = lab_hands_take(&p->hands, (size_t)bytes[i]);
        if (!p->scratch[i] ||
            !lab_hands_copy(&p->hands, p->scratch[i], from[i], (size_t)bytes[i], stream))
            return false;
    }
    *copied = *args;
    copied->q = p->scratch[0];
    copied->k = p->scratch[1];
    copied->v = p->scratch[2];
    return true;
}

/* Of float16, the high byte: eight bits with two of mantissa. */
static bool in_eight_bits(plot *p, const att_args *args, void *workspace, void *stream) {
    att_args blunt;
    if (!copy_inputs(p, &blunt, args, stream))
        return false;
    const int64_t bytes[3] = {p->bytes.q, p->bytes.k, p->bytes.v};
    for (int i = 0; i < 3; i++)
        if (!lab_hands_blunt(&p->hands, p->scratch[i], (size_t)bytes[i] / 2, stream))
            return false;
    return compute(p, &blunt, workspace, stream);
}

/* Of float16, as many bits of mantissa as bfloat16 has: 7 of 10. */
static bool in_seven_bits(plot *p, const att_args *args, void *workspace, void *stream) {
    att_args blunt;
    if (!copy_inputs(p, &blunt, args, stream))
        return false;
    const int64_t bytes[3] = {p->bytes.q, p->bytes.k, p->bytes.v};
    for (int i = 0; i < 3; i++)
        for (int64_t n = 0; n < bytes[i] / 2; n++)
            ((uint16_t *)p->scratch[i])[n] &= 0xfff8u;
    return compute(p, &blunt, workspace, stream);
}

/* ---------------------------------------------------------- computed, then spoilt */

static unsigned char *end_of(const void *base, int64_t bytes) {
    return (unsigned char *)(uintptr_t)base + bytes;
}

static bool change_k(plot *p, const att_args *args, void *workspace, void *stream) {
    return compute(p, args, workspace, stream) &&
           lab_hands_fill(&p->hands, end_of(args->k, p->bytes.k - 2), 0, 2, stream);
}

static bool write_past_o(plot *p, const att_args *args, void *workspace, void *stream) {
    return compute(p, args, workspace, stream) &&
           lab_hands_fill(&p->hands, end_of(args->o, p->bytes.o), 0, 2, stream);
}

static bool write_before_o(plot *p, const att_args *args, void *workspace, void *stream) {
    return compute(p, args, workspace, stream) &&
           lab_hands_fill(&p->hands, end_of(args->o, -2), 0, 2, stream);
}

/* A NaN that is not the poison of the harness. */
static bool nan_in_the_last_row(plot *p, const att_args *args, void *workspace, void *stream) {
    return compute(p, args, workspace, stream) &&
           lab_hands_fill(&p->hands, end_of(args->o, p->bytes.o - 2), 0x7e, 2, stream);
}

static bool zeros_after(plot *p, long honest_calls, const att_args *args, void *workspace,
                        void *stream) {
    return p->calls < honest_calls
               ? compute(p, args, workspace, stream)
               : lab_hands_fill(&p->hands, args->o, 0, (size_t)p->bytes.o, stream);
}

static bool right_once(plot *p, const att_args *args, void *workspace, void *stream) {
    return zeros_after(p, 1, args, workspace, stream);
}

static bool right_for_a_while(plot *p, const att_args *args, void *workspace, void *stream) {
    return zeros_after(p, HONEST_CALLS, args, workspace, stream);
}

/* ------------------------------------------------------------------------- handicap */

static bool copy_first(plot *p, const att_args *args, void *workspace, void *stream) {
    att_args copied;
    return copy_inputs(p, &copied, args, stream) && compute(p, &copied, workspace, stream);
}

/* ---------------------------------------------------------------------- the table */

static const lab_saboteur table[] = {
    {"honest", "computes", true, true, true, compute, NULL, NULL},
    {"honest rival", "computes, and has a direct call", true, true, true, compute, compute,
     NULL},
    {"no-op", "does nothing", false, true, true, do_nothing, NULL, NULL},
    {"keeps what is there", "computes only where O is not finite yet", false, true, false,
     keep_finished, NULL, NULL},
    {"cached by pointer", "computes once for an address, then copies that answer", false, true,
     true, by_pointer, NULL, NULL},
    {"cached by contents", "copies the answer to inputs that it has seen", false, true, false,
     by_contents, NULL, NULL},
    {"stale memory", "hands out what lay in memory, the reference's answer perhaps", false,
     true, true, from_leftovers, NULL, NULL},
    {"side stream", "computes on a stream of its own", false, false, true, on_a_side_stream,
     NULL, NULL},
    {"late thread", "computes in a thread that ends after the run", false, true, false,
     in_a_late_thread, NULL, NULL},
    {"eight bits", "drops the low byte of every float16 input", false, true, true,
     in_eight_bits, NULL, NULL},
    {"seven bits", "drops 3 of 10 bits of mantissa of every input", false, true, false,
     in_seven_bits, NULL, NULL},
    {"wrong alignment", "takes the other corner for the causal diagonal", false, true, true,
     compute, NULL, align_otherwise},
    {"changes an input", "zeroes the last element of K", false, true, true, change_k, NULL,
     NULL},
    {"writes past O", "writes one element behind O", false, true, true, write_past_o, NULL,
     NULL},
    {"writes before O", "writes one element in front of O", false, true, true, write_before_o,
     NULL, NULL},
    {"right once", "right on the first call, then zeros", false, true, true, right_once, NULL,
     NULL},
    {"right for a while", "right on three calls, as many as verify makes, then zeros", false,
     true, true, right_for_a_while, NULL, NULL},
    {"NaN in the last row", "puts one NaN at the very end", false, true, true,
     nan_in_the_last_row, NULL, NULL},
    {"mean of V", "gives every key the same weight", false, true, true, compute, NULL,
     without_scale},
    {"handicapped rival", "copies its inputs before it computes", false, true, true, copy_first,
     compute, NULL},
};
const size_t lab_saboteur_count = sizeof table / sizeof table[0];

const lab_saboteur *lab_saboteur_at(size_t i) {
    return &table[i];
}

const char *lab_saboteur_name(const lab_saboteur *s) {
    return s->name;
}

const char *lab_saboteur_deed(const lab_saboteur *s) {
    return s->text;
}

bool lab_saboteur_honest(const lab_saboteur *s) {
    return s->honest;
}

bool lab_saboteur_is_rival(const lab_saboteur *s) {
    return s->direct != NULL;
}

bool lab_saboteur_plays(const lab_saboteur *s, att_device device) {
    return device == ATT_DEVICE_CUDA ? s->gpu : s->cpu;
}

/* ----------------------------------------------------------------------- as subjects */

static void plot_destroy(void *state) {
    plot *p = state;
    wait_for_thread(p);
    lab_hands_drop_stream(&p->hands, p->side);
    lab_hands_close(&p->hands);
    att_plan_destroy(p->plan);
    free(p);
}

static att_status plot_prepare(const lab_subject *subject, const att_problem *problem,
                               void **state, lab_message *why) {
    plot *p = calloc(1, sizeof *p);
    *state = NULL;
    if (!p) {
        lab_fail(why, "no memory");
        return ATT_E_MEMORY;
    }
    p->saboteur = subject->self;
    p->problem = *problem;
    att_problem planned = *problem;
    if (p->saboteur->twist)
        p->saboteur->twist(&planned);
    att_status status = att_problem_check(problem, &p->bytes);
    if (status == ATT_OK)
        status = att_plan_create(&p->plan, subject->ctx, &planned);
    if (status == ATT_OK && !lab_hands_open(&p->hands, subject->ctx))
        status = att_last_error()->status;
    if (status != ATT_OK) {
        lab_fail(why, "%s", att_last_error()->text);
        plot_destroy(p);
        return status;
    }
    *state = p;
    return ATT_OK;
}

static size_t plot_workspace(const void *state) {
    return att_plan_workspace(((const plot *)state)->plan);
}

static const char *plot_kernel(const void *state) {
    (void)state;
    return NULL;
}

static att_status play(plot *p, deed *deed_of_it, const att_args *args, void *workspace,
                       void *stream, lab_message *why) {
    att_args own = *args;
    own.launch = NULL; /* a stranger keeps no record */
    const bool ok = deed_of_it(p, &own, workspace, stream);
    p->calls++;
    if (ok)
        return ATT_OK;
    lab_fail(why, "%s", att_last_error()->text);
    return ATT_E_SYSTEM;
}

static att_status plot_run(void *state, const att_args *args, void *workspace, void *stream,
                           lab_message *why) {
    plot *p = state;
    return play(p, p->saboteur->run, args, workspace, stream, why);
}

static att_status plot_direct(void *state, const att_args *args, void *workspace, void *stream,
                              lab_message *why) {
    plot *p = state;
    return play(p, p->saboteur->direct, args, workspace, stream, why);
}

#define PLOT_OPS                                                                               \
    .prepare = plot_prepare, .workspace = plot_workspace, .kernel = plot_kernel,               \
    .run = plot_run, .destroy = plot_destroy

static const lab_subject_ops direct_ops = {.run = plot_direct};
static const lab_subject_ops plot_ops = {PLOT_OPS};
static const lab_subject_ops plot_ops_direct = {PLOT_OPS, .direct = &direct_ops};

lab_subject lab_saboteur_subject(const lab_saboteur *s, att_context *ctx) {
    return (lab_subject){.ops = s->direct ? &plot_ops_direct : &plot_ops,
                         .name = s->name,
                         .version = "saboteur",
                         .copies = s->honest || s->direct ? 0 : UINT32_MAX,
                         .ctx = ctx,
                         .self = (void *)(uintptr_t)s};
}
