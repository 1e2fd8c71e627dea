/* tensors.c: the buffers of one problem: sizes, lifetime, checks. */
#include "lab/tensors/tensors.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "lab/base/entropy.h"
#include "lab/base/random.h"
#include "lab/base/workers.h"
#include "lab/tensors/output_rows.h"
#include "lab/tensors/row_strips.h"

/* ---------------------------------------------------------------------- life */

/* The most sequences per head: they are filled and checked one by one. */
enum { SEQUENCES_MAX = 1 << 24 };

static bool check_sequences(const lab_spec *spec, lab_message *why) {
    for (int i = 0; i < spec->operation->sets && !spec->operation->is_empty(spec); i++) {
        const lab_row_set set = spec->operation->set(spec, i);
        const bool most = set.batch >= set.heads;
        int64_t n;
        if (!att_mul(set.batch, att_max(set.heads, 1), &n) || n > SEQUENCES_MAX)
            return lab_fail(why, "%s=%lld is too large: batch x heads is past %d",
                            most ? "batch" : "heads", (long long)(most ? set.batch : set.heads),
                            SEQUENCES_MAX);
    }
    return true;
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
        if (size->integer)
            t->buffer[i].poison = LAB_POISON_INTEGER;
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
    if (!lab_tensors_renew(t, seed, why)) {
        lab_tensors_destroy(t);
        return false;
    }
    lab_tensors_poison_outputs(t);
    *out = t;
    return true;
}

bool lab_tensors_renew(lab_tensors *t, uint64_t seed, lab_message *why) {
    if (!t->spec.operation->fill(t, seed, why))
        return false;
    for (int i = 0; i < t->count; i++)
        if (t->buffer[i].map && !t->size[i].output)
            lab_buffer_seal(&t->buffer[i]);
    return true;
}

void lab_tensors_destroy(lab_tensors *t) {
    if (!t)
        return;
    for (int i = 0; i < t->count; i++)
        lab_buffer_destroy(&t->buffer[i]);
    free(t);
}

/* ------------------------------------------------------------------- outputs */

size_t lab_tensors_output_bytes(const lab_tensors *t) {
    size_t bytes = 0;
    for (int i = 0; i < t->count; i++)
        bytes += t->size[i].output ? t->buffer[i].bytes : 0;
    return bytes;
}

void lab_tensors_keep_outputs(const lab_tensors *t, unsigned char *copy) {
    for (int i = 0; i < t->count; i++)
        if (t->size[i].output && t->buffer[i].map) {
            memcpy(copy, t->buffer[i].data, t->buffer[i].bytes);
            copy += t->buffer[i].bytes;
        }
}

void lab_tensors_put_outputs(lab_tensors *t, const unsigned char *copy) {
    for (int i = 0; i < t->count; i++)
        if (t->size[i].output && t->buffer[i].map) {
            memcpy(t->buffer[i].data, copy, t->buffer[i].bytes);
            copy += t->buffer[i].bytes;
        }
}

static void for_output_rows(const lab_tensors *t, lab_visit_bytes *visit, void *context) {
    lab_row_walk walk;
    for (lab_walk_start(&walk, t); lab_walk_next(&walk);)
        lab_visit_row(t, &walk.outputs, walk.row, visit, context);
}

static void poison_bytes(void *context, void *row, size_t bytes) {
    memset(row, *(const unsigned char *)context, bytes);
}

static void poison_row(const lab_tensors *t, const lab_outputs *outputs, lab_row row) {
    for (int i = 0; i < outputs->count; i++) {
        const lab_output *o = &outputs->list[i];
        unsigned char byte = o->is_integer ? LAB_POISON_INTEGER : LAB_POISON;
        if (o->set == row.set && !o->absent)
            lab_visit_output(t, o, i, row, poison_bytes, &byte);
    }
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
    lab_row_walk walk;
    for (lab_walk_start(&walk, t); large && lab_walk_next(&walk);)
        poison_row(t, &walk.outputs, walk.row);
}

void lab_tensors_poison_row(lab_tensors *t, lab_row row) {
    const lab_outputs outputs = t->spec.operation->outputs(&t->spec);
    poison_row(t, &outputs, row);
}

static void hash_row(void *context, void *row, size_t bytes) {
    uint64_t *hash = context;
    *hash = lab_hash(*hash, row, bytes);
}

/* Rows of a set that a glance hashes. */
enum { GLANCES = 16, STREAM_GLANCE = 2000 };

/* Draw a row of the set; false if the drawn batch entry has none. */
static bool draw_row(const lab_tensors *t, int set, lab_random *random, lab_row *row) {
    const lab_operation *operation = t->spec.operation;
    const lab_row_set all = operation->set(&t->spec, set);
    if (all.batch == 0 || all.heads == 0)
        return false;
    *row = (lab_row){.set = set};
    row->b = lab_random_below(random, all.batch);
    row->h = lab_random_below(random, all.heads);
    const int64_t rows = operation->rows(&t->spec, &t->any, set, row->b);
    row->i = rows > 0 ? lab_random_below(random, rows) : 0;
    return rows > 0;
}

uint64_t lab_tensors_glance(const lab_tensors *t, uint64_t seed) {
    const lab_outputs outputs = t->spec.operation->outputs(&t->spec);
    lab_random random;
    lab_row row;
    uint64_t hash = 1;
    lab_random_seed(&random, seed, STREAM_GLANCE);
    for (int set = 0; set < t->spec.operation->sets; set++)
        for (int n = 0; lab_set_is_asked(&outputs, set) && n < GLANCES; n++)
            if (draw_row(t, set, &random, &row))
                lab_visit_row(t, &outputs, row, hash_row, &hash);
    return hash;
}

typedef struct hashing {
    lab_row_strips strips;
    _Atomic uint64_t sum; /* of the strips' hashes, each mixed with its index */
} hashing;

static void hash_strip(void *context, int64_t strip) {
    hashing *h = context;
    const lab_row_strips *strips = &h->strips;
    uint64_t hash = (uint64_t)strip + 1;
    lab_row row;
    for (int64_t n = lab_strip_first(strips, strip, &row); n > 0; n--) {
        lab_visit_row(strips->tensors, &strips->outputs, row, hash_row, &hash);
        lab_strip_next(strips, &row);
    }
    atomic_fetch_add(&h->sum, lab_hash(hash, &strip, sizeof strip));
}

uint64_t lab_tensors_hash_outputs(const lab_tensors *t) {
    hashing h = {.sum = 0};
    if (!lab_row_strips_open(&h.strips, t))
        return lab_entropy(); /* out of memory: an arbitrary value, so that no comparison
                               * succeeds */
    lab_workers_run(h.strips.count, hash_strip, &h);
    lab_row_strips_close(&h.strips);
    return atomic_load(&h.sum);
}

/* A copy of the buffer in which every byte that belongs to an output row is marked 1. */
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
    while (i < b->bytes && (m.marked[i] || b->data[i] == b->poison))
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
