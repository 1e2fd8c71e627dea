/* test_jumps.c: scores that jump, at every place of every tile of keys, in one row alone.
 *
 *     test_jumps cpu              what the CPU serves them with
 *     test_jumps cuda [PREFIX]    every kernel of the GPU that PREFIX begins, each by itself ("fwd_sm")
 *
 * Q is 0 but for one row a head that is (1, 0, ...). K is 0 but for its first column, which is `rest` for all keys but one or
 * two. So a marked row's scores are the scale times what K holds there, all other rows' are 0, and both answers have a closed
 * form in float64. A kernel that weighs keys against anything else than their maximum meets weights here that its
 * arithmetic does not hold. Batch entries are places, heads are rows: a launch tries all of them.
 *
 * Needs no test library. Prints a line for every launch that is wrong and closes with "N passed, M failed, K skipped". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "core/registry.h"
#include "cuda/row.h"
#include "lab/attention/attention_lab.h"
#include "lab/tensors/device_memory.h"
#include "tests/gpu/counts.h"

enum { ROWS_MAX = 8, SCENES_MAX = 128, PLANS = 3 /* masks */ };

/* ------------------------------------------------------------------------ what is tried */

/* The first column of K: `rest`, but value[n] at key at[n]. */
typedef struct scene {
    float rest;
    int count;
    int at[2];
    float value[2];
} scene;

/* Shapes, marked rows (one a head) and scenes (one a batch entry). */
typedef struct trial {
    att_dtype dtype;
    int d_qk, d_v, seq_q, seq_k;
    int heads, marked[ROWS_MAX];
    int batch;
    scene scenes[SCENES_MAX];
    int alone; /* entries of which a block has no more than one tile; 0: not known */
} trial;

typedef struct jump {
    const char *name;
    double scale;
} jump;

#define LN2 0.69314718055994530942
static const jump jumps[] = {
    {"weights of 2^10", 10 * LN2},   {"weights of 2^20", 20 * LN2},
    {"weights of 2^100", 100 * LN2}, {"weights of 2^126.5", 126.5 * LN2},
    {"weights of 2^127", 127 * LN2}, {"weights of 2^128", 128 * LN2},
    {"weights of 2^129", 129 * LN2}, {"weights of 2^300", 300 * LN2},
    {"scores of 2^10", 0x1p10},      {"scores of 2^20", 0x1p20},
    {"scores of 2^100", 0x1p100},
};
enum { JUMPS = sizeof jumps / sizeof jumps[0] };

static const char *const mask_names[PLANS] = {
    [ATT_CAUSAL_NONE] = "full",
    [ATT_CAUSAL_TOP_LEFT] = "causal=top-left",
    [ATT_CAUSAL_BOTTOM_RIGHT] = "causal=bottom-right",
};

static void add_scene(trial *t, scene s) {
    if (t->batch < SCENES_MAX)
        t->scenes[t->batch++] = s;
}

/* The first, a middle and the last key of every tile: one score that is higher than all others, with those at 0 and far below
 * it. Where keys are taken from the last tile to the first, a place in the last tile is one from which scores
 * fall. Two jumps, in neighbouring tiles, both ways round. */
static void add_scenes(trial *t, int tile) {
    for (int from = 0; from < t->seq_k; from += tile) {
        const int to = from + tile < t->seq_k ? from + tile : t->seq_k;
        const int places[] = {from, (from + to) / 2, to - 1};
        for (int i = 0; i < 3; i++) {
            add_scene(t, (scene){0.0f, 1, {places[i]}, {1.0f}});
            add_scene(t, (scene){-1.0f, 1, {places[i]}, {0.0f}});
        }
        if (to < t->seq_k) {
            const int next = (to + 5) % t->seq_k;
            add_scene(t, (scene){0.0f, 2, {from, next}, {1.0f, 2.0f}});
            add_scene(t, (scene){0.0f, 2, {from, next}, {2.0f, 1.0f}});
        }
    }
}

static void mark_rows(trial *t, const int *rows, int count) {
    t->heads = count;
    for (int h = 0; h < count; h++)
        t->marked[h] = rows[h];
}

/* ---------------------------------------------------------------------- what must come out */

static int visible(const trial *t, att_causal mask, int i) {
    if (mask == ATT_CAUSAL_NONE)
        return t->seq_k;
    const int keys = i + 1 + (mask == ATT_CAUSAL_BOTTOM_RIGHT ? t->seq_k - t->seq_q : 0);
    return keys < t->seq_k ? keys : t->seq_k;
}

/* What a row is made of: keys 0 .. keys - 1, of which some, `lone`, have weights of their own. */
typedef struct mix {
    int keys, count;
    int lone[2];
    double weight[2], rest; /* over the sum of all */
    double lse;
} mix;

static mix mix_of(const scene *s, bool marked, double scale, int keys) {
    mix m = {.keys = keys};
    double score[2] = {0.0, 0.0};
    for (int n = 0; marked && n < s->count; n++)
        if (s->at[n] < keys) {
            score[m.count] = scale * (double)s->value[n];
            m.lone[m.count++] = s->at[n];
        }
    const double rest = marked ? scale * (double)s->rest : 0.0;
    double top = keys > m.count ? rest : score[0];
    for (int n = 0; n < m.count; n++)
        top = fmax(top, score[n]);
    double sum = (m.rest = exp(rest - top)) * (keys - m.count);
    for (int n = 0; n < m.count; n++)
        sum += m.weight[n] = exp(score[n] - top);
    m.rest /= sum;
    for (int n = 0; n < m.count; n++)
        m.weight[n] /= sum;
    m.lse = top + log(sum);
    return m;
}

/* Column c of that row. `sums` are those of the first 0, 1, ... keys' V. */
static double value_of(const trial *t, const mix *m, const void *v, const double *sums, int c) {
    double others = sums[(int64_t)m->keys * t->d_v + c], own = 0.0;
    for (int n = 0; n < m->count; n++) {
        const double x = (double)att_load(v, t->dtype, (int64_t)m->lone[n] * t->d_v + c);
        others -= x;
        own += m->weight[n] * x;
    }
    return own + m->rest * others;
}

/* --------------------------------------------------------------------------------- a stage */

/* A trial's tensors on the device, and the sums of its V. */
typedef struct stage {
    const trial *t;
    att_context *ctx;
    lab_spec spec;
    lab_tensors *tensors;
    lab_buffer workspace;
    lab_mirror mirror;
    double *sums; /* a batch entry: seq_k + 1 rows of d_v */
} stage;

static void *row_of(const stage *s, lab_tensor which, int64_t row, int64_t columns) {
    return s->tensors->buffer[which].data +
           (size_t)(row * columns) * att_dtype_size(s->t->dtype);
}

static const double *sums_of(const stage *s, int b) {
    return s->sums + (int64_t)b * (s->t->seq_k + 1) * s->t->d_v;
}

static void fill(stage *s) {
    const trial *t = s->t;
    memset(s->tensors->buffer[LAB_Q].data, 0, s->tensors->buffer[LAB_Q].bytes);
    memset(s->tensors->buffer[LAB_K].data, 0, s->tensors->buffer[LAB_K].bytes);
    for (int b = 0; b < t->batch; b++) {
        for (int h = 0; h < t->heads; h++)
            att_store(row_of(s, LAB_Q, (int64_t)(b * t->heads + h) * t->seq_q + t->marked[h],
                             t->d_qk),
                      t->dtype, 0, 1.0f);
        void *k = row_of(s, LAB_K, (int64_t)b * t->seq_k, t->d_qk);
        for (int j = 0; j < t->seq_k; j++)
            att_store(k, t->dtype, (int64_t)j * t->d_qk, t->scenes[b].rest);
        for (int n = 0; n < t->scenes[b].count; n++)
            att_store(k, t->dtype, (int64_t)t->scenes[b].at[n] * t->d_qk,
                      t->scenes[b].value[n]);
        const void *v = row_of(s, LAB_V, (int64_t)b * t->seq_k, t->d_v);
        double *sums = s->sums + (int64_t)b * (t->seq_k + 1) * t->d_v;
        for (int64_t e = 0; e < (int64_t)t->seq_k * t->d_v; e++)
            sums[e + t->d_v] = sums[e] + (double)att_load(v, t->dtype, e);
    }
    lab_buffer_seal(&s->tensors->buffer[LAB_Q]);
    lab_buffer_seal(&s->tensors->buffer[LAB_K]);
}

static void close_stage(stage *s) {
    lab_mirror_close(&s->mirror);
    lab_workspace_destroy(&s->workspace);
    lab_tensors_destroy(s->tensors);
    free(s->sums);
}

static bool open_stage(stage *s, att_context *ctx, const trial *t, size_t workspace) {
    lab_message why = {.text = ""};
    char line[128];
    snprintf(line, sizeof line, "b%dh%dhkv1s%dsk%dd%ddv%d,%s,lse,layout=bhsd", t->batch,
             t->heads, t->seq_q, t->seq_k, t->d_qk, t->d_v,
             t->dtype == ATT_BF16 ? "bf16" : "fp16");
    *s = (stage){.t = t, .ctx = ctx};
    if (!lab_spec_parse(&s->spec, line, &why) ||
        !lab_tensors_create(&s->tensors, &s->spec, 1, &why))
        return check(false, "%s: %s", line, why.text);
    s->sums =
        calloc((size_t)t->batch * (size_t)(t->seq_k + 1) * (size_t)t->d_v, sizeof *s->sums);
    if (!s->sums)
        return check(false, "%s: no memory", line);
    fill(s);
    return lab_workspace_create(&s->workspace, workspace, &why) &&
                   lab_mirror_tensors(&s->mirror, ctx, s->tensors, &s->workspace, &why)
               ? true
               : check(false, "%s: %s", line, why.text);
}

/* ------------------------------------------------------------------------------- judgement */

/* Weights are powers of two, which rounding leaves as they are, or one of them outweighs all others: what is left is that of the
 * answer, and of float32 sums. */
static bool row_is_right(const stage *s, int b, int64_t row, const mix *m, lab_message *why) {
    const trial *t = s->t;
    const double one_ulp = t->dtype == ATT_BF16 ? 0x1p-8 : 0x1p-11;
    const void *o = row_of(s, LAB_O, row, t->d_v);
    const void *v = row_of(s, LAB_V, (int64_t)b * t->seq_k, t->d_v);
    for (int c = 0; c < t->d_v; c++) {
        const double want = value_of(t, m, v, sums_of(s, b), c);
        const double got = (double)att_load(o, t->dtype, c);
        if (!(fabs(got - want) <= 2.0 * one_ulp * fabs(want) + 2e-5))
            return lab_fail(why, "o[%d] is %.6g instead of %.6g", c, got, want);
    }
    const double lse = (double)((const float *)s->tensors->buffer[LAB_LSE].data)[row];
    if (!(fabs(lse - m->lse) <= 2e-6 * fmax(fabs(m->lse), 1.0)))
        return lab_fail(why, "lse is %.9g instead of %.9g", lse, m->lse);
    return true;
}

static bool same_bits(const stage *s, int64_t a, int64_t b) {
    const size_t bytes = (size_t)s->t->d_v * att_dtype_size(s->t->dtype);
    const float *lse = (const float *)s->tensors->buffer[LAB_LSE].data;
    return memcmp(row_of(s, LAB_O, a, s->t->d_v), row_of(s, LAB_O, b, s->t->d_v), bytes) == 0 &&
           memcmp(&lse[a], &lse[b], sizeof *lse) == 0;
}

/* Heads share K and V, so rows that are not marked have one answer: what is bit by bit a row that was judged is not judged
 * again. */
static bool scene_is_right(const stage *s, int b, att_causal mask, double scale,
                           lab_message *why) {
    const trial *t = s->t;
    for (int i = 0; i < t->seq_q; i++) {
        const int keys = visible(t, mask, i);
        const mix mean = mix_of(&t->scenes[b], false, scale, keys);
        int64_t judged = -1;
        for (int h = 0; h < t->heads; h++) {
            const bool marked = t->marked[h] == i;
            const int64_t row = (int64_t)(b * t->heads + h) * t->seq_q + i;
            if (!marked && judged >= 0 && same_bits(s, row, judged))
                continue;
            const mix own = marked ? mix_of(&t->scenes[b], true, scale, keys) : mean;
            lab_message what = {.text = ""};
            if (!row_is_right(s, b, row, &own, &what))
                return lab_fail(why, "%srow %d, key %d at %g (%g before, %d in all): %s",
                                marked ? "marked " : "", i, t->scenes[b].at[0],
                                (double)t->scenes[b].value[0], (double)t->scenes[b].rest,
                                t->scenes[b].count, what.text);
            if (!marked)
                judged = row;
        }
    }
    return true;
}

static bool answers_hold(const stage *s, att_causal mask, double scale, lab_message *why) {
    for (int b = 0; b < s->t->batch; b++)
        if (!scene_is_right(s, b, mask, scale, why))
            return false;
    return lab_tensors_check(s->tensors, why) && lab_workspace_check(&s->workspace, why);
}

/* -------------------------------------------------------------------------------- launches */

static att_plan *plan_of(att_context *ctx, const att_problem *problem, att_causal mask,
                         double scale) {
    att_problem p = *problem;
    att_plan *plan = NULL;
    p.causal = mask;
    p.scale = (float)scale;
    return att_plan_create(&plan, ctx, &p) == ATT_OK ? plan : NULL;
}

/* Batch entries from `first` on, as many as the plan has. */
static att_args args_from(const stage *s, int first) {
    const trial *t = s->t;
    const size_t bytes = att_dtype_size(t->dtype), keys = (size_t)first * (size_t)t->seq_k,
                 rows = (size_t)(first * t->heads) * (size_t)t->seq_q;
    att_args a = s->mirror.args;
    a.q = (const char *)a.q + rows * (size_t)t->d_qk * bytes;
    a.k = (const char *)a.k + keys * (size_t)t->d_qk * bytes;
    a.v = (const char *)a.v + keys * (size_t)t->d_v * bytes;
    a.o = (char *)a.o + rows * (size_t)t->d_v * bytes;
    a.lse += rows;
    return a;
}

/* `together` entries at a time; the last ones again where they do not divide. */
static bool run_all(stage *s, att_causal mask, double scale, int together, lab_message *why) {
    att_problem p = s->spec.problem;
    p.batch = together;
    att_plan *plan = plan_of(s->ctx, &p, mask, scale);
    bool right = plan || lab_fail(why, "%s", att_last_error()->text);
    for (int first = 0; right && first < s->t->batch; first += together) {
        const int last = s->t->batch - together;
        const att_args args = args_from(s, first < last ? first : last);
        right = att_plan_run(plan, &args, s->mirror.workspace, s->mirror.stream) == ATT_OK ||
                lab_fail(why, "%s", att_last_error()->text);
    }
    right = right && lab_mirror_download_outputs(&s->mirror, why);
    att_plan_destroy(plan);
    return right;
}

static void try_jump(stage *s, const char *kernel, att_causal mask, const jump *j,
                     int together) {
    lab_message why = {.text = ""};
    const double scale = (double)(float)j->scale;
    lab_tensors_poison_outputs(s->tensors);
    const bool right = lab_mirror_upload_outputs(&s->mirror, &why) &&
                       run_all(s, mask, scale, together, &why) &&
                       answers_hold(s, mask, scale, &why);
    check(right, "%s: d%d: %s, %s, %d entries at once: %s", kernel, s->t->d_qk,
          mask_names[mask], j->name, together, why.text);
}

/* Every jump under every mask. */
static void try_jumps(stage *s, const char *kernel, int together) {
    for (int mask = 0; mask < PLANS; mask++)
        for (int n = 0; n < JUMPS; n++)
            try_jump(s, kernel, (att_causal)mask, &jumps[n], together);
}

/* Workspace that every mask's plan is content with; false where one is refused. */
static bool plan_workspace(att_context *ctx, const trial *t, size_t *bytes) {
    att_problem p;
    att_problem_init(&p, t->batch, t->heads, 1, t->seq_q, t->seq_k, t->d_qk, t->d_v, t->dtype);
    att_problem_layout_bhsd(&p);
    p.features = ATT_LSE;
    *bytes = 0;
    for (int mask = 0; mask < PLANS; mask++) {
        att_plan *plan = plan_of(ctx, &p, (att_causal)mask, 1.0);
        if (!plan)
            return false;
        const size_t needs = att_plan_workspace(plan);
        *bytes = needs > *bytes ? needs : *bytes;
        att_plan_destroy(plan);
    }
    return true;
}

/* `kernel` NULL: whatever the context chooses. */
static void try_all(att_device device, const char *kernel, const trial *t) {
    const att_context_options options = {.size = sizeof options,
                                         .device = device,
                                         .kernel = kernel,
                                         .flags = ATT_ALLOW_UNATTESTED};
    const char *name = kernel ? kernel : "cpu";
    att_context *ctx = NULL;
    size_t workspace;
    stage s;
    if (!check(att_context_create(&ctx, &options) == ATT_OK, "%s: %s", name,
               att_last_error()->text))
        return;
    if (check(plan_workspace(ctx, t, &workspace), "%s: %s", name, att_last_error()->text)) {
        if (open_stage(&s, ctx, t, workspace)) {
            try_jumps(&s, name, t->batch);
            if (t->alone > 0 && t->alone < t->batch)
                try_jumps(&s, name, t->alone);
        }
        close_stage(&s);
    }
    att_context_destroy(ctx);
}

/* ------------------------------------------------------------------------------------ main */

static void try_cpu(void) {
    static const int rows[] = {0, 64, 130};
    for (int dtype = ATT_F16; dtype <= ATT_BF16; dtype++)
        for (int d = 64; d <= 128; d += 64) {
            trial t = {
                .dtype = (att_dtype)dtype, .d_qk = d, .d_v = d, .seq_q = 131, .seq_k = 317};
            mark_rows(&t, rows, 3);
            add_scenes(&t, 128);
            try_all(ATT_DEVICE_CPU, NULL, &t);
        }
}

/* Rows in every warpgroup of the tiles of rows; those of few rows serve few. Tiles of 32 keys are tried two by two. What a block
 * has met may make it careful with its next tiles: entries are tried all at once, and so few that it has none. */
static void try_kernel(const att_kernel_info *k, int sms) {
    static const int many[] = {15, 100, 170, 255}, few[] = {0, 37, 101};
    trial t = {.dtype = k->dtype, .d_qk = k->d_qk, .d_v = k->d_v, .seq_q = 271, .seq_k = 701};
    mark_rows(&t, many, 4);
    if (strcmp(k->role, "small") == 0) {
        t.seq_q = k->tile_m;
        mark_rows(&t, few, k->tile_m > 64 ? 3 : 2);
    }
    add_scenes(&t, k->tile_n < 64 ? 64 : k->tile_n);
    t.alone = sms / (t.heads * ((t.seq_q + k->tile_m - 1) / k->tile_m));
    const int before = failed;
    try_all(ATT_DEVICE_CUDA, k->id, &t);
    printf("%-44s %4d places, %s\n", k->id, t.batch, failed == before ? "ok" : "WRONG");
}

/* Whether a kernel takes the problems of a trial: 16-bit types, and no feature compiled in that every problem of its must have. */
static bool takes_trials(const att_cuda_kernel *k) {
    return k->features == 0 && k->dtype != ATT_F32 && !att_role_helps(k->role) &&
           k->role != ATT_ROLE_DECODE;
}

static void try_gpu(const char *prefix) {
    const att_context_options options = {.size = sizeof options, .device = ATT_DEVICE_CUDA};
    att_context *ctx = NULL;
    if (!check(att_context_create(&ctx, &options) == ATT_OK, "no GPU: %s",
               att_last_error()->text))
        return;
    att_context_info info = {.size = sizeof info};
    att_context_query(ctx, &info);
    int tried = 0;
    for (size_t i = 0; i < att_kernel_count(); i++) {
        att_kernel_info k = {.size = sizeof k};
        if (att_kernel_query(ctx, i, &k) == ATT_OK && k.device == ATT_DEVICE_CUDA &&
            k.available && !k.rung && takes_trials(att_registry_row(i)->cuda) &&
            strncmp(k.id, prefix, strlen(prefix)) == 0) {
            try_kernel(&k, info.multiprocessors);
            tried++;
        }
    }
    check(tried > 0, "no kernel of this GPU begins with %s", prefix);
    att_context_destroy(ctx);
}

int main(int argc, char **argv) {
    const bool gpu = argc > 1 && strcmp(argv[1], "cuda") == 0;
    if (argc < 2 || argc > 3 || (!gpu && (argc > 2 || strcmp(argv[1], "cpu") != 0))) {
        fputs("usage: test_jumps cpu | cuda [PREFIX]\n", stderr);
        return 2;
    }
    if (gpu)
        try_gpu(argc > 2 ? argv[2] : "fwd_sm");
    else
        try_cpu();
    return say_counts();
}
