/* saboteur.c: the table of saboteurs, and what each adds to an honest plan. */
#include "lab/subject/saboteur.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "lab/subject/saboteur_plot.h"

/* The number of calls for which a saboteur that expects verification first is honest. */
enum { HONEST_CALLS = 3 };

struct lab_saboteur {
    const char *name, *text;
    bool honest, cpu, gpu;
    lab_deed *run;
    lab_deed *direct;               /* NULL: none */
    void (*twist)(lab_spec *spec);  /* changes the problem that is planned; NULL: no change */
    lab_stage stage;                /* the kind of problem that it needs */
    const lab_operation *operation; /* the operation that it sabotages; NULL: any */
    bool (*idle)(const lab_spec *spec); /* whether it has no effect on that problem; NULL: it
                                         * always has one */
};

bool lab_deed_compute(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    lab_args own = *args;
    p->spec.operation->record(&own, NULL); /* a peer keeps no record */
    return p->spec.operation->run(p->plan, &own, workspace, stream) == ATT_OK;
}

/* ------------------------------------------------------------------------- no work */

static bool do_nothing(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    (void)p, (void)args, (void)workspace, (void)stream;
    return true;
}

static bool keep_finished(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    return lab_plot_is_finished(p) || lab_deed_compute(p, args, workspace, stream);
}

/* -------------------------------------------------------------------- kept answers */

static bool by_pointer(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    const void *input = p->input[0].data, *output = p->output[0].data;
    for (size_t i = 0; i < p->kept_count; i++)
        if (p->kept[i].input == input && p->kept[i].output == output)
            return lab_plot_hand_out(p, &p->kept[i], stream);
    if (!lab_deed_compute(p, args, workspace, stream))
        return false;
    if (p->kept_count == LAB_KEPT_MOST)
        return true;
    lab_kept_answer *k = &p->kept[p->kept_count++];
    k->input = input;
    k->output = output;
    return lab_plot_keep(p, k, stream);
}

static bool by_contents(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    lab_kept_answer *k = lab_plot_place(p, lab_plot_hash_inputs(p));
    if (k->sights++ > 0)
        return lab_plot_hand_out(p, k, stream);
    return lab_deed_compute(p, args, workspace, stream) && lab_plot_keep(p, k, stream);
}

/* Memory used by others, such as the harness's oracle, may hold the answer. */
static bool from_leftovers(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    (void)args, (void)workspace;
    return lab_plot_hand_out(p, &p->leftovers, stream);
}

/* ------------------------------------------------------------------- work elsewhere */

static bool on_a_side_stream(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    (void)stream;
    return (p->side || lab_hands_stream(&p->hands, &p->side)) &&
           lab_deed_compute(p, args, workspace, p->side);
}

static void *work_late(void *argument) {
    lab_plot *p = argument;
    p->spec.operation->run(p->plan, &p->args, p->workspace, NULL);
    return NULL;
}

static void wait_for_thread(lab_plot *p) {
    if (p->working)
        pthread_join(p->thread, NULL);
    p->working = false;
}

static bool in_a_late_thread(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    (void)workspace, (void)stream; /* the harness refills its own while the thread runs */
    wait_for_thread(p);
    p->args = *args;
    p->spec.operation->record(&p->args, NULL);
    if (!p->workspace)
        p->workspace = aligned_alloc(ATT_WORKSPACE_ALIGN,
                                     att_plan_workspace(p->plan) + ATT_WORKSPACE_ALIGN);
    p->working = p->workspace && pthread_create(&p->thread, NULL, work_late, p) == 0;
    return p->working;
}

/* ------------------------------------------------------------------- another problem */

static void without_scale(lab_spec *spec) {
    spec->problem.scale = 0.0f; /* every key has the same weight */
}

static void align_otherwise(lab_spec *spec) {
    att_problem *q = &spec->problem;
    q->causal =
        q->causal == ATT_CAUSAL_TOP_LEFT ? ATT_CAUSAL_BOTTOM_RIGHT : ATT_CAUSAL_TOP_LEFT;
}

static bool has_one_corner(const lab_spec *spec) {
    return spec->problem.causal != ATT_CAUSAL_NONE &&
           spec->problem.seq_q == spec->problem.seq_k;
}

/* ------------------------------------------------------------------------ precision */

/* Whether the input has bits to drop: those of 16-bit types, and all floats of a float32
 * problem. */
static bool is_blunted(const lab_plot *p, int input) {
    return p->input[input].element == 2 ||
           (p->input[input].element == 4 && !p->input[input].integer &&
            p->spec.operation->dtype(&p->spec) == ATT_F32);
}

/* Clear the low byte of every 16 bits: float16 keeps eight bits, two of them mantissa. */
static bool in_eight_bits(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    lab_args blunt;
    if (!lab_plot_copy_inputs(p, &blunt, args, stream))
        return false;
    for (int i = 0; i < p->inputs; i++)
        if (is_blunted(p, i) &&
            !lab_hands_blunt(&p->hands, p->scratch[i], p->input[i].bytes / 2, stream))
            return false;
    return lab_deed_compute(p, &blunt, workspace, stream);
}

/* Keep as many mantissa bits of float16 and float32 as bfloat16 has: 7. Of bfloat16 keep 4. */
bool lab_deed_seven_bits(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    lab_args blunt;
    if (!lab_plot_copy_inputs(p, &blunt, args, stream))
        return false;
    for (int i = 0; i < p->inputs; i++) {
        uint16_t *half = p->scratch[i];
        const bool wide = p->input[i].element == 4;
        for (size_t n = 0; is_blunted(p, i) && n < p->input[i].bytes / 2; n++)
            half[n] &= !wide ? 0xfff8u : n % 2 == 0 ? 0u : 0xffffu;
    }
    return lab_deed_compute(p, &blunt, workspace, stream);
}

/* ---------------------------------------------------------- computed, then spoilt */

static unsigned char *end_of(const lab_plot_tensor *t) {
    return t->data + t->bytes;
}

static bool change_input(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    const lab_plot_tensor *t = &p->input[p->inputs - 1];
    return lab_deed_compute(p, args, workspace, stream) &&
           lab_hands_fill(&p->hands, end_of(t) - t->element, 0, t->element, stream);
}

static bool write_past_o(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    return lab_deed_compute(p, args, workspace, stream) &&
           lab_hands_fill(&p->hands, end_of(&p->output[0]), 0, 2, stream);
}

static bool write_before_o(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    return lab_deed_compute(p, args, workspace, stream) &&
           lab_hands_fill(&p->hands, p->output[0].data - 2, 0, 2, stream);
}

/* A NaN in every type that differs from the harness's poison: 0x7fc0 in the highest bits. */
static bool nan_in_the_last_row(lab_plot *p, const lab_args *args, void *workspace,
                                void *stream) {
    unsigned char *end = end_of(&p->output[0]);
    return lab_deed_compute(p, args, workspace, stream) &&
           lab_hands_fill(&p->hands, end - 2, 0xc0, 1, stream) &&
           lab_hands_fill(&p->hands, end - 1, 0x7f, 1, stream);
}

static bool zeros_after(lab_plot *p, long honest_calls, const lab_args *args, void *workspace,
                        void *stream) {
    if (p->calls < honest_calls)
        return lab_deed_compute(p, args, workspace, stream);
    bool ok = true;
    for (int i = 0; ok && i < p->outputs; i++)
        ok = lab_hands_fill(&p->hands, p->output[i].data, 0, p->output[i].bytes, stream);
    return ok;
}

static bool right_once(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    return zeros_after(p, 1, args, workspace, stream);
}

static bool right_for_a_while(lab_plot *p, const lab_args *args, void *workspace,
                              void *stream) {
    return zeros_after(p, HONEST_CALLS, args, workspace, stream);
}

/* ------------------------------------------------------------------------- handicap */

static bool copy_first(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    lab_args copied;
    return lab_plot_copy_inputs(p, &copied, args, stream) &&
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
     .text = "returns what was left in memory, perhaps the reference's answer",
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
     .text = "drops the low byte of every 16 bits of the inputs",
     .cpu = true,
     .gpu = true,
     .run = in_eight_bits},
    {.name = "seven bits",
     .text = "drops bits of mantissa of every input, 3 of 10 in float16",
     .cpu = true,
     .run = lab_deed_seven_bits},
    {.name = "wrong alignment",
     .text = "takes the other corner for the causal diagonal",
     .cpu = true,
     .gpu = true,
     .run = lab_deed_compute,
     .twist = align_otherwise,
     .operation = &lab_operation_attention,
     .idle = has_one_corner},
    {.name = "changes an input",
     .text = "zeroes the last element of an input",
     .cpu = true,
     .gpu = true,
     .run = change_input},
    {.name = "writes past O",
     .text = "writes one element past the end of O",
     .cpu = true,
     .gpu = true,
     .run = write_past_o},
    {.name = "writes before O",
     .text = "writes one element before the start of O",
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
     .twist = without_scale,
     .operation = &lab_operation_attention},
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
     .text = "computes only if its inputs are at other addresses than in its last call",
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
     .stage = LAB_STAGE_HEADS,
     .operation = &lab_operation_attention},
    {.name = "updates its sums",
     .text = "keeps the sums of its last call and adds the change of a few rows and keys",
     .cpu = true,
     .run = lab_deed_updates,
     .stage = LAB_STAGE_HEADS,
     .operation = &lab_operation_attention,
     .idle = lab_idle_updates},
    {.name = "stale K and V",
     .text = "right gradients of Q, those of K and V of its first call",
     .cpu = true,
     .gpu = true,
     .run = lab_deed_stale_keys,
     .operation = &lab_operation_backward,
     .idle = lab_idle_stale_keys},
    {.name = "V of another head",
     .text = "some gradients of V are those of the next head",
     .cpu = true,
     .gpu = true,
     .run = lab_deed_other_head,
     .operation = &lab_operation_backward,
     .idle = lab_idle_other_head},
    {.name = "a tile left out",
     .text = "the gradients of K and V lack the last 16 rows of one head",
     .cpu = true,
     .gpu = true,
     .run = lab_deed_without_a_tile,
     .operation = &lab_operation_backward,
     .idle = lab_idle_without_a_tile},
    {.name = "other bits",
     .text = "the last bit of one gradient changes from call to call",
     .cpu = true,
     .run = lab_deed_other_bits,
     .operation = &lab_operation_backward},
    {.name = "expert skipped",
     .text = "leaves out what the last expert adds",
     .cpu = true,
     .gpu = true,
     .run = lab_deed_compute,
     .twist = lab_twist_skip_expert,
     .operation = &lab_operation_moe,
     .idle = lab_idle_skip_expert},
    {.name = "not renormalised",
     .text = "takes the weights of experts before they are divided by their sum",
     .cpu = true,
     .gpu = true,
     .run = lab_deed_compute,
     .twist = lab_twist_unnormalise,
     .operation = &lab_operation_moe,
     .idle = lab_idle_unnormalise},
    {.name = "last expert dropped",
     .text = "right ids and weights, y of all experts of a token but its last",
     .cpu = true,
     .gpu = true,
     .run = lab_deed_without_last_choice,
     .operation = &lab_operation_moe,
     .idle = lab_idle_without_last_choice},
    {.name = "stale routing",
     .text = "sends the tokens to the experts of its first call",
     .cpu = true,
     .gpu = true,
     .run = lab_deed_stale_routing,
     .operation = &lab_operation_moe,
     .idle = lab_idle_stale_routing},
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

const lab_operation *lab_saboteur_operation(const lab_saboteur *s) {
    return s->operation;
}

bool lab_saboteur_idle(const lab_saboteur *s, const lab_spec *spec) {
    return s->idle && s->idle(spec);
}

/* ----------------------------------------------------------------------- as subjects */

static void plot_destroy(void *state) {
    lab_plot *p = state;
    wait_for_thread(p);
    free(p->workspace);
    lab_hands_drop_stream(&p->hands, p->side);
    lab_hands_close(&p->hands);
    lab_plot_forget_heads(p);
    lab_plot_forget_sums(p);
    att_plan_destroy(p->plan);
    free(p);
}

static att_status plan_spoilt(lab_plot *p, lab_message *why) {
    lab_spec planned = p->spec;
    if (p->saboteur->twist)
        p->saboteur->twist(&planned);
    if (!p->spec.operation->sizes(&p->spec, p->size, &p->size_count)) {
        lab_fail(why, "a tensor's size does not fit 63 bits");
        return ATT_E_ARG;
    }
    att_status status = p->spec.operation->plan(&p->plan, p->ctx, &planned);
    if (status == ATT_OK && !lab_hands_open(&p->hands, p->ctx))
        status = att_last_error()->status;
    if (status != ATT_OK)
        lab_fail(why, "%s", att_last_error()->text);
    return status;
}

static att_status plot_prepare(const lab_subject *subject, const lab_spec *spec, void **state,
                               lab_message *why) {
    const lab_saboteur *s = subject->self;
    *state = NULL;
    if (s->operation && spec->operation != s->operation) {
        lab_fail(why, "%s spoils %s, not %s", s->name, s->operation->library->name,
                 lab_spec_operation(spec));
        return ATT_E_UNSUPPORTED;
    }
    lab_plot *p = calloc(1, sizeof *p);
    if (!p) {
        lab_fail(why, "no memory");
        return ATT_E_MEMORY;
    }
    p->saboteur = s;
    p->ctx = subject->ctx;
    p->spec = *spec;
    const att_status status = plan_spoilt(p, why);
    if (status == ATT_OK)
        *state = p;
    else
        plot_destroy(p);
    return status;
}

static size_t plot_workspace(const void *state) {
    return att_plan_workspace(((const lab_plot *)state)->plan);
}

static const char *plot_kernel(const void *state) {
    (void)state;
    return NULL;
}

static att_status play(lab_plot *p, lab_deed *deed_of_it, const lab_args *args, void *workspace,
                       void *stream, lab_message *why) {
    lab_plot_look(p, args);
    const bool ok = deed_of_it(p, args, workspace, stream);
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
    return play(p, p->saboteur->run, args, workspace, stream, why);
}

static att_status plot_direct(void *state, const lab_operation *operation, const lab_args *args,
                              void *workspace, void *stream, lab_message *why) {
    lab_plot *p = state;
    (void)operation;
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
