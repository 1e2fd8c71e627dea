/* dump_oracle.c: writes problems, their inputs and the oracle's answers for compare.py to read.
 *
 * usage: dump_oracle FOLDER < specs
 * For the n-th spec: FOLDER/n.meta ("name value" lines), n.<tensor> (the input buffers as they lie in
 * memory), n.answer (float64: the rows of O, each followed by its LSE, by batch, head, row). */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/attention/attention_lab.h"
#include "lab/tensors/tensors.h"
#include "attention/ref/oracle.h"

static FILE *create(const char *folder, int n, const char *suffix) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%d.%s", folder, n, suffix);
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(3);
    }
    return file;
}

static void finish(FILE *file) {
    if (ferror(file) || fclose(file) != 0) {
        perror("dump_oracle");
        exit(3);
    }
}

static void write_strides(FILE *file, const char *name, const att_strides *s) {
    fprintf(file, "%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", name, s->batch,
            s->head, s->row, s->col);
}

static void write_meta(FILE *file, const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    const struct {
        const char *name;
        int64_t value;
    } integers[] = {
        {"features", p->features},
        {"dtype", (int64_t)p->dtype},
        {"batch", p->batch},
        {"heads_q", p->heads_q},
        {"heads_kv", p->heads_kv},
        {"seq_q", p->seq_q},
        {"seq_k", p->seq_k},
        {"d_qk", p->d_qk},
        {"d_v", p->d_v},
        {"causal", (int64_t)p->causal},
        {"align", (int64_t)p->align},
        {"window_left", p->window_left},
        {"window_right", p->window_right},
        {"alibi_stride_batch", p->alibi_stride_batch},
        {"bias_dtype", (int64_t)p->bias_dtype},
        {"page_size", p->page_size},
        {"page_table_stride", p->page_table_stride},
        {"packed", spec->layout == LAB_PACKED},
        {"k_offset", spec->k_offset},
        {"q_offset", p->q_offset},
        {"key_offset", p->k_offset},
        {"v_offset", spec->v_offset},
    };
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++)
        fprintf(file, "%s %" PRId64 "\n", integers[i].name, integers[i].value);
    fprintf(file, "scale %a\nsoftcap %a\n", (double)p->scale, (double)p->softcap);
    write_strides(file, "q", &p->q);
    write_strides(file, "k", &p->k);
    write_strides(file, "v", &p->v);
    write_strides(file, "bias", &p->bias);
}

static void write_answer(FILE *file, const lab_tensors *t) {
    const att_problem *p = &t->spec.problem;
    double *logits = malloc((size_t)(p->seq_k + 1) * sizeof *logits);
    double *row = malloc((size_t)(p->d_v + 1) * sizeof *row);
    if (!logits || !row)
        exit(3);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < att_ref_len_q(p, &t->args, b); i++) {
                att_ref_row(p, &t->args, b, h, i, logits, row, &row[p->d_v]);
                fwrite(row, sizeof *row, (size_t)(p->d_v + 1), file);
            }
    free(logits);
    free(row);
}

static void dump(const char *folder, int n, const lab_spec *spec) {
    static const struct {
        lab_tensor tensor;
        const char *name;
    } inputs[] = {
        {LAB_Q, "q"},
        {LAB_K, "k"},
        {LAB_V, "v"},
        {LAB_ALIBI, "alibi"},
        {LAB_BIAS, "bias"},
        {LAB_SINKS, "sinks"},
        {LAB_CU_Q, "cu_q"},
        {LAB_CU_K, "cu_k"},
        {LAB_LENS_K, "lens_k"},
        {LAB_STARTS_K, "starts_k"},
        {LAB_Q_OFFSETS, "q_offsets"},
        {LAB_K_OFFSETS, "k_offsets"},
        {LAB_PAGE_TABLE, "page_table"},
    };
    lab_message why;
    lab_tensors *t;
    if (!lab_tensors_create(&t, spec, (uint64_t)n, &why)) {
        fprintf(stderr, "%s\n", why.text);
        exit(3);
    }
    FILE *file = create(folder, n, "meta");
    write_meta(file, spec);
    finish(file);
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        const lab_buffer *b = &t->buffer[inputs[i].tensor];
        if (!b->map)
            continue;
        file = create(folder, n, inputs[i].name);
        fwrite(b->data, 1, b->bytes, file);
        finish(file);
    }
    file = create(folder, n, "answer");
    write_answer(file, t);
    finish(file);
    lab_tensors_destroy(t);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: dump_oracle FOLDER < specs\n");
        return 2;
    }
    char line[LAB_SPEC_MAX];
    for (int n = 0; fgets(line, sizeof line, stdin); n++) {
        line[strcspn(line, "\n")] = '\0';
        lab_spec spec;
        lab_message why;
        if (!lab_spec_parse(&spec, line, &why)) {
            fprintf(stderr, "%s: %s\n", line, why.text);
            return 1;
        }
        dump(argv[1], n, &spec);
    }
    return 0;
}
