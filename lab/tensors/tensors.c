/* tensors.c: the buffers of one problem: sizes, life, checks. */
#include "lab/tensors/tensors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "lab/base/random.h"

/* ---------------------------------------------------------------------- life */

/* Sequences of a head that tensors are made for: they are filled and checked one by one. */
enum { SEQUENCES_MAX = 1 << 24 };

static bool check_sequences(const lab_spec *spec, lab_message *why) {
    const int64_t batch = spec->operation->batch(spec), heads = spec->operation->heads(spec);
    int64_t n;
    if (spec->operation->is_empty(spec) ||
        (att_mul(batch, att_max(heads, 1), &n) && n <= SEQUENCES_MAX))
        return true;
    const bool most = batch >= heads;
    return lab_fail(why, "%s=%lld is too large: batch x heads is past %d",
                    most ? "batch" : "heads", (long long)(most ? batch : heads), SEQUENCES_MAX);
}

static bool allocate(lab_tensors *t, lab_message *why) {
    if (!check_sequences(&t->spec, why))
        return false;
    if (!t->spec.operation->sizes(&t->spec, t->size, &t->count))
        return lab_fail(why, "a tensor's size in elements does not fit 63 bits");
    double touched = 0.0;
    for (int i = 0; i < t->count; i++)
        touched += t->size[i].touched;
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (touched > 0.75 * memory)
        return lab_fail(why, "the tensors take %.1f GiB, this machine has %.1f",
                        touched / 0x1p30, memory / 0x1p30);
    for (int i = 0; i < t->count; i++) {
        const lab_tensor_size *size = &t->size[i];
        int64_t bytes, shift;
        if (!size->present)
            continue;
        if (!att_mul(size->elements, (int64_t)size->element_size, &bytes) ||
            !att_mul(size->shift, (int64_t)size->element_size, &shift))
            return lab_fail(why, "%s: its size in bytes does not fit 63 bits", size->name);
        if (!lab_buffer_create(&t->buffer[i], (size_t)bytes, (size_t)shift, why))
            return false;
    }
    return true;
}

bool lab_tensors_create(lab_tensors **out, const lab_spec *spec, uint64_t seed,
                        lab_message *why) {
    *out = NULL;
    lab_tensors *t = calloc(1, sizeof *t);
    if (!t)
        return lab_fail(why, "no memory");
    t->spec = *spec;
    if (!allocate(t, why)) {
        lab_tensors_destroy(t);
        return false;
    }
    spec->operation->point(&t->any, spec, t->buffer);
    for (int i = 0; i < t->count; i++) {
        if (t->buffer[i].map && t->buffer[i].bytes <= LAB_BUFFER_LARGE && !t->size[i].sparse)
            lab_buffer_poison(&t->buffer[i]);
    }
    lab_tensors_renew(t, seed);
    lab_tensors_poison_outputs(t);
    *out = t;
    return true;
}

void lab_tensors_renew(lab_tensors *t, uint64_t seed) {
    t->spec.operation->fill(t, seed);
    for (int i = 0; i < t->count; i++)
        if (t->buffer[i].map && !t->size[i].output)
            lab_buffer_seal(&t->buffer[i]);
}

void lab_tensors_destroy(lab_tensors *t) {
    if (!t)
        return;
    for (int i = 0; i < t->count; i++)
        lab_buffer_destroy(&t->buffer[i]);
    free(t);
}

/* ------------------------------------------------------------------- outputs */

lab_buffer *lab_tensors_output(lab_tensors *t) {
    int i = 0;
    while (!t->size[i].output)
        i++;
    return &t->buffer[i];
}

/* Call `visit` with each output row: bytes at O, then at LSE where there is one. */
static void for_output_rows(const lab_tensors *t,
                            void (*visit)(void *context, void *row, size_t bytes),
                            void *context) {
    const lab_operation *operation = t->spec.operation;
    if (operation->is_empty(&t->spec))
        return;
    for (int64_t b = 0; b < operation->batch(&t->spec); b++)
        for (int64_t h = 0; h < operation->heads(&t->spec); h++)
            for (int64_t i = 0; i < operation->rows(&t->spec, &t->any, b); i++) {
                const lab_answer at = operation->answer(&t->spec, &t->any, (lab_row){b, h, i});
                visit(context, at.o, (size_t)at.d * att_dtype_size(at.dtype));
                if (at.lse)
                    visit(context, at.lse, sizeof(float));
            }
}

static void poison_row(void *context, void *row, size_t bytes) {
    (void)context;
    memset(row, LAB_POISON, bytes);
}

void lab_tensors_poison_outputs(lab_tensors *t) {
    bool large = false;
    for (int i = 0; i < t->count; i++) {
        if (!t->size[i].output)
            continue;
        if (t->buffer[i].bytes > LAB_BUFFER_LARGE)
            large = true;
        else if (t->buffer[i].map)
            lab_buffer_poison(&t->buffer[i]);
    }
    if (large)
        for_output_rows(t, poison_row, NULL);
}

/* Rows that a glance looks at. */
enum { GLANCES = 16, STREAM_GLANCE = 2000 };

uint64_t lab_tensors_glance(const lab_tensors *t, uint64_t seed) {
    const lab_operation *operation = t->spec.operation;
    const int64_t batch = operation->batch(&t->spec), heads = operation->heads(&t->spec);
    lab_random random;
    uint64_t hash = 1;
    lab_random_seed(&random, seed, STREAM_GLANCE);
    for (int n = 0; n < GLANCES && batch > 0 && heads > 0; n++) {
        const int64_t b = lab_random_below(&random, batch);
        const int64_t h = lab_random_below(&random, heads);
        const int64_t rows = operation->rows(&t->spec, &t->any, b);
        if (rows == 0)
            continue;
        const lab_answer at = operation->answer(
            &t->spec, &t->any, (lab_row){b, h, lab_random_below(&random, rows)});
        hash = lab_hash(hash, at.o, (size_t)at.d * att_dtype_size(at.dtype));
    }
    return hash;
}

static void hash_row(void *context, void *row, size_t bytes) {
    uint64_t *hash = context;
    *hash = lab_hash(*hash, row, bytes);
}

uint64_t lab_tensors_hash_outputs(const lab_tensors *t) {
    uint64_t hash = 1;
    for_output_rows(t, hash_row, &hash);
    return hash;
}

/* A copy of the buffer in which every byte of an output row is marked 1. */
typedef struct marks {
    const lab_buffer *buffer;
    unsigned char *marked;
} marks;

static void mark_row(void *context, void *row, size_t bytes) {
    const marks *m = context;
    const unsigned char *at = row;
    if (at >= m->buffer->data && at < m->buffer->data + m->buffer->bytes)
        memset(m->marked + (at - m->buffer->data), 1, bytes);
}

static bool check_output_padding(const lab_tensors *t, int tensor, lab_message *why) {
    const lab_buffer *b = &t->buffer[tensor];
    if (!t->size[tensor].padded || b->bytes == 0 || b->bytes > LAB_BUFFER_LARGE)
        return true;
    marks m = {b, calloc(1, b->bytes)};
    if (!m.marked)
        return lab_fail(why, "no memory to check the padding of %s", t->size[tensor].name);
    for_output_rows(t, mark_row, &m);
    size_t i = 0;
    while (i < b->bytes && (m.marked[i] || b->data[i] == LAB_POISON))
        i++;
    free(m.marked);
    return i == b->bytes || lab_fail(why, "%s: padding was written, %zu bytes from its start",
                                     t->size[tensor].name, i);
}

bool lab_tensors_check(const lab_tensors *t, lab_message *why) {
    for (int i = 0; i < t->count; i++) {
        const lab_buffer *b = &t->buffer[i];
        if (!b->map)
            continue;
        if (!lab_buffer_guarded(b))
            return lab_fail(why, "%s: memory beside it was written", t->size[i].name);
        if (!t->size[i].output && !lab_buffer_sealed(b))
            return lab_fail(why, "%s: an input was changed", t->size[i].name);
        if (t->size[i].output && !check_output_padding(t, i, why))
            return false;
    }
    return true;
}
