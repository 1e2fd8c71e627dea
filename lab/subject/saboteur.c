/* saboteur.c: the table of saboteurs, and what each does around an honest plan. */
#include "lab/subject/saboteur.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "lab/subject/saboteur_plot.h"
#include "lab/tensors/buffer.h"

/* Calls for which one that fears verification is honest. */
enum { HONEST_CALLS = 3 };

struct lab_saboteur {
    const char *name, *text;
    bool honest, cpu, gpu;
    lab_deed *run;
    lab_deed *direct; /* NULL: none */
    void (*twist)(
        att_problem *problem); /* what it plans in place of what is asked; NULL: that */
    lab_stage stage;           /* what it has to be played on */
};

bool lab_deed_compute(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    return att_plan_run(p->plan, args, workspace, stream) == ATT_OK;
}

/* ------------------------------------------------------------------------- no work */

static bool do_nothing(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    (void)p, (void)args, (void)workspace, (void)stream;
    return true;
}

static bool keep_finished(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    return isfinite(att_load(args->o, p->problem.dtype_o, 0)) ||
           lab_deed_compute(p, args, workspace, stream);
}

/* -------------------------------------------------------------------- kept answers */

static bool remember(lab_plot *p, const att_args *args, uint64_t inputs, void *stream) {
    if (p->kept_count == LAB_KEPT_MOST)
        return true;
    lab_kept_answer *k = &p->kept[p->kept_count];
    *k = (lab_kept_answer){args->q, args->o, inputs, 1,
                           lab_hands_take(&p->hands, (size_t)p->bytes.o)};
    p->kept_count += k->copy != NULL;
    return k->copy && lab_hands_copy(&p->hands, k->copy, args->o, (size_t)p->bytes.o, stream);
}

static bool by_pointer(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    for (size_t i = 0; i < p->kept_count; i++)
        if (p->kept[i].q == args->q && p->kept[i].o == args->o)
            return lab_hands_copy(&p->hands, args->o, p->kept[i].copy, (size_t)p->bytes.o,
                                  stream);
    return lab_deed_compute(p, args, workspace, stream) && remember(p, args, 0, stream);
}

static bool by_contents(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    uint64_t hash = lab_hash(1, args->q, (size_t)p->bytes.q);
    hash = lab_hash(hash, args->k, (size_t)p->bytes.k);
    hash = lab_hash(hash, args->v, (size_t)p->bytes.v);
    for (size_t i = 0; i < p->kept_count; i++)
        if (p->kept[i].inputs == hash)
            return lab_hands_copy(&p->hands, args->o, p->kept[i].copy, (size_t)p->bytes.o,
                                  stream);
    if (p->kept_count == LAB_KEPT_MOST) { /* the oldest goes */
        lab_kept_answer *k = &p->kept[(size_t)p->calls % LAB_KEPT_MOST];
        k->inputs = hash;
        return lab_deed_compute(p, args, workspace, stream) &&
               lab_hands_copy(&p->hands, k->copy, args->o, (size_t)p->bytes.o, stream);
    }
    return lab_deed_compute(p, args, workspace, stream) && remember(p, args, hash, stream);
}

/* Memory that somebody else has used, the harness's oracle among them, may hold the answer. */
static bool from_leftovers(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    (void)workspace;
    if (!p->scratch[0])
        p->scratch[0] = lab_hands_take(&p->hands, (size_t)p->bytes.o);
    return p->scratch[0] &&
           lab_hands_copy(&p->hands, args->o, p->scratch[0], (size_t)p->bytes.o, stream);
}

/* ------------------------------------------------------------------- work elsewhere */

static bool on_a_side_stream(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    (void)stream;
    return (p->side || lab_hands_stream(&p->hands, &p->side)) &&
           lab_deed_compute(p, args, workspace, p->side);
}

static void *work_late(void *argument) {
    lab_plot *p = argument;
    att_plan_run(p->plan, &p->args, p->workspace, NULL);
    return NULL;
}

static void wait_for_thread(lab_plot *p) {
    if (p->working)
        pthread_join(p->thread, NULL);
    p->working = false;
}

static bool in_a_late_thread(lab_plot *p, const att_args *args, void *workspace, void *stream) {
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
static bool copy_inputs(lab_plot *p, att_args *copied, const att_args *args, void *stream) {
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
static bool in_eight_bits(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    att_args blunt;
    if (!copy_inputs(p, &blunt, args, stream))
        return false;
    const int64_t bytes[3] = {p->bytes.q, p->bytes.k, p->bytes.v};
    for (int i = 0; i < 3; i++)
        if (!lab_hands_blunt(&p->hands, p->scratch[i], (size_t)bytes[i] / 2, stream))
            return false;
    return lab_deed_compute(p, &blunt, workspace, stream);
}

/* Of float16, as many bits of mantissa as bfloat16 has: 7 of 10. */
bool lab_deed_seven_bits(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    att_args blunt;
    if (!copy_inputs(p, &blunt, args, stream))
        return false;
    const int64_t bytes[3] = {p->bytes.q, p->bytes.k, p->bytes.v};
    for (int i = 0; i < 3; i++)
        for (int64_t n = 0; n < bytes[i] / 2; n++)
            ((uint16_t *)p->scratch[i])[n] &= 0xfff8u;
    return lab_deed_compute(p, &blunt, workspace, stream);
}

/* ---------------------------------------------------------- computed, then spoilt */

static unsigned char *end_of(const void *base, int64_t bytes) {
    return (unsigned char *)(uintptr_t)base + bytes;
}

static bool change_k(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    return lab_deed_compute(p, args, workspace, stream) &&
           lab_hands_fill(&p->hands, end_of(args->k, p->bytes.k - 2), 0, 2, stream);
}

static bool write_past_o(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    return lab_deed_compute(p, args, workspace, stream) &&
           lab_hands_fill(&p->hands, end_of(args->o, p->bytes.o), 0, 2, stream);
}

static bool write_before_o(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    return lab_deed_compute(p, args, workspace, stream) &&
           lab_hands_fill(&p->hands, end_of(args->o, -2), 0, 2, stream);
}

/* A NaN that is not the poison of the harness. */
static bool nan_in_the_last_row(lab_plot *p, const att_args *args, void *workspace,
                                void *stream) {
    return lab_deed_compute(p, args, workspace, stream) &&
           lab_hands_fill(&p->hands, end_of(args->o, p->bytes.o - 2), 0x7e, 2, stream);
}

static bool zeros_after(lab_plot *p, long honest_calls, const att_args *args, void *workspace,
                        void *stream) {
    return p->calls < honest_calls
               ? lab_deed_compute(p, args, workspace, stream)
               : lab_hands_fill(&p->hands, args->o, 0, (size_t)p->bytes.o, stream);
}

static bool right_once(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    return zeros_after(p, 1, args, workspace, stream);
}

static bool right_for_a_while(lab_plot *p, const att_args *args, void *workspace,
                              void *stream) {
    return zeros_after(p, HONEST_CALLS, args, workspace, stream);
}

/* ------------------------------------------------------------------------- handicap */

static bool copy_first(lab_plot *p, const att_args *args, void *workspace, void *stream) {
    att_args copied;
    return copy_inputs(p, &copied, args, stream) &&
           lab_deed_compute(p, &copied, workspace, stream);
}

/* ---------------------------------------------------------------------- the table */

static const lab_saboteur table[] = {
    {.name = "honest",
     .text = "computes",
     .honest = true,
     .cpu = true,
     .gpu = true,
     .run = lab_deed_compute},
    {.name = "honest rival",
     .text = "computes, and has a direct call",
     .honest = true,
     .cpu = true,
     .gpu = true,
     .run = lab_deed_compute,
     .direct = lab_deed_compute},
    {.name = "no-op", .text = "does nothing", .cpu = true, .gpu = true, .run = do_nothing},
    {.name = "keeps what is there",
     .text = "computes only where O is not finite yet",
     .cpu = true,
     .run = keep_finished},
    {.name = "cached by pointer",
     .text = "computes once for an address, then copies that answer",
     .cpu = true,
     .gpu = true,
     .run = by_pointer},
    {.name = "cached by contents",
     .text = "copies the answer to inputs that it has seen",
     .cpu = true,
     .run = by_contents},
    {.name = "stale memory",
     .text = "hands out what lay in memory, the reference's answer perhaps",
     .cpu = true,
     .gpu = true,
     .run = from_leftovers},
    {.name = "side stream",
     .text = "computes on a stream of its own",
     .gpu = true,
     .run = on_a_side_stream},
    {.name = "late thread",
     .text = "computes in a thread that ends after the run",
     .cpu = true,
     .run = in_a_late_thread},
    {.name = "eight bits",
     .text = "drops the low byte of every float16 input",
     .cpu = true,
     .gpu = true,
     .run = in_eight_bits},
    {.name = "seven bits",
     .text = "drops 3 of 10 bits of mantissa of every input",
     .cpu = true,
     .run = lab_deed_seven_bits},
    {.name = "wrong alignment",
     .text = "takes the other corner for the causal diagonal",
     .cpu = true,
     .gpu = true,
     .run = lab_deed_compute,
     .twist = align_otherwise},
    {.name = "changes an input",
     .text = "zeroes the last element of K",
     .cpu = true,
     .gpu = true,
     .run = change_k},
    {.name = "writes past O",
     .text = "writes one element behind O",
     .cpu = true,
     .gpu = true,
     .run = write_past_o},
    {.name = "writes before O",
     .text = "writes one element in front of O",
     .cpu = true,
     .gpu = true,
     .run = write_before_o},
    {.name = "right once",
     .text = "right on the first call, then zeros",
     .cpu = true,
     .gpu = true,
     .run = right_once},
    {.name = "right for a while",
     .text = "right on three calls, as many as verify makes, then zeros",
     .cpu = true,
     .gpu = true,
     .run = right_for_a_while},
    {.name = "NaN in the last row",
     .text = "puts one NaN at the very end",
     .cpu = true,
     .gpu = true,
     .run = nan_in_the_last_row},
    {.name = "mean of V",
     .text = "gives every key the same weight",
     .cpu = true,
     .gpu = true,
     .run = lab_deed_compute,
     .twist = without_scale},
    {.name = "handicapped rival",
     .text = "copies its inputs before it computes",
     .cpu = true,
     .gpu = true,
     .run = copy_first,
     .direct = lab_deed_compute},
    {.name = "impatient",
     .text = "computes only where O[0] is not finite or 3 us have passed since its last call",
     .cpu = true,
     .run = lab_deed_when_rested_or_poisoned,
     .stage = LAB_STAGE_SHORT},
    {.name = "clock watcher",
     .text = "computes only where 3 us have passed since its last call",
     .cpu = true,
     .run = lab_deed_when_rested,
     .stage = LAB_STAGE_SHORT},
    {.name = "every other call",
     .text = "skips every second call where O is finite",
     .cpu = true,
     .run = lab_deed_every_other,
     .stage = LAB_STAGE_SHORT},
    {.name = "blunt when finished",
     .text = "drops bits of the inputs where O is finite",
     .cpu = true,
     .run = lab_deed_blunt_when_finished,
     .stage = LAB_STAGE_SHORT},
    {.name = "blunt when hurried",
     .text = "drops bits of the inputs where its last call ended less than 3 us ago",
     .cpu = true,
     .run = lab_deed_blunt_when_hurried,
     .stage = LAB_STAGE_SHORT},
    {.name = "new addresses only",
     .text = "computes only where Q lies elsewhere than in its last call",
     .cpu = true,
     .run = lab_deed_new_address},
    {.name = "fifth sight",
     .text = "copies the answer to inputs that it has seen five times",
     .cpu = true,
     .run = lab_deed_fifth_sight},
    {.name = "changed heads only",
     .text = "computes the heads whose inputs have changed since its last call",
     .cpu = true,
     .run = lab_deed_changed_heads,
     .stage = LAB_STAGE_HEADS},
    {.name = "other rounding",
     .text = "rounds towards zero from now on, the reference too",
     .cpu = true,
     .run = lab_deed_other_rounding},
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

lab_stage lab_saboteur_stage(const lab_saboteur *s) {
    return s->direct ? LAB_STAGE_RIVAL : s->stage;
}

bool lab_saboteur_plays(const lab_saboteur *s, att_device device) {
    return device == ATT_DEVICE_CUDA ? s->gpu : s->cpu;
}

/* ----------------------------------------------------------------------- as subjects */

static void plot_destroy(void *state) {
    lab_plot *p = state;
    wait_for_thread(p);
    lab_hands_drop_stream(&p->hands, p->side);
    lab_hands_close(&p->hands);
    lab_plot_forget_heads(p);
    att_plan_destroy(p->plan);
    free(p);
}

static att_status plot_prepare(const lab_subject *subject, const lab_spec *spec, void **state,
                               lab_message *why) {
    const att_problem *problem = &spec->problem;
    *state = NULL;
    if (spec->operation != &lab_operation_attention) {
        lab_fail(why, "%s spoils attention, not %s", subject->name, lab_spec_operation(spec));
        return ATT_E_UNSUPPORTED;
    }
    lab_plot *p = calloc(1, sizeof *p);
    if (!p) {
        lab_fail(why, "no memory");
        return ATT_E_MEMORY;
    }
    p->saboteur = subject->self;
    p->ctx = subject->ctx;
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
    return att_plan_workspace(((const lab_plot *)state)->plan);
}

static const char *plot_kernel(const void *state) {
    (void)state;
    return NULL;
}

static att_status play(lab_plot *p, lab_deed *deed_of_it, const att_args *args, void *workspace,
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

static att_status plot_run(void *state, const lab_operation *operation, const lab_args *args,
                           void *workspace, void *stream, lab_message *why) {
    lab_plot *p = state;
    (void)operation;
    return play(p, p->saboteur->run, &args->attention, workspace, stream, why);
}

static att_status plot_direct(void *state, const lab_operation *operation, const lab_args *args,
                              void *workspace, void *stream, lab_message *why) {
    lab_plot *p = state;
    (void)operation;
    return play(p, p->saboteur->direct, &args->attention, workspace, stream, why);
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
