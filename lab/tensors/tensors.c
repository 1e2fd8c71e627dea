/* tensors.c: the buffers of one problem: sizes, life, checks. */
#include "lab/tensors/tensors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "lab/base/random.h"
#include "lab/tensors/tensors_fill.h"
#include "attention/ref/oracle.h"

static const char *const tensor_names[LAB_TENSOR_COUNT] = {
    [LAB_Q] = "q",
    [LAB_K] = "k",
    [LAB_V] = "v",
    [LAB_O] = "o",
    [LAB_LSE] = "lse",
    [LAB_ALIBI] = "alibi",
    [LAB_BIAS] = "bias",
    [LAB_SINKS] = "sinks",
    [LAB_CU_Q] = "cu_seqlens_q",
    [LAB_CU_K] = "cu_seqlens_k",
    [LAB_LENS_K] = "lens_k",
    [LAB_PAGE_TABLE] = "page_table",
};

/* --------------------------------------------------------------------- sizes */

typedef struct extents {
    int64_t batch, head, row, col;
} extents;

typedef struct tensor_size {
    bool present;
    int64_t elements; /* from the first to the last that is addressed */
    double touched;   /* bytes that will be written */
    size_t element_size;
} tensor_size;

static bool add_reach(int64_t *elements, int64_t n, int64_t stride) {
    int64_t reach;
    return n <= 1 || (att_mul(n - 1, stride, &reach) && att_add(*elements, reach, elements));
}

static bool size_strided(tensor_size *size, const att_strides *s, extents n,
                         size_t element_size) {
    size->present = true;
    size->element_size = element_size;
    if (n.batch == 0 || n.head == 0 || n.row == 0 || n.col == 0)
        return true;
    size->elements = 1;
    if (!add_reach(&size->elements, n.batch, s->batch) ||
        !add_reach(&size->elements, n.head, s->head) ||
        !add_reach(&size->elements, n.row, s->row) ||
        !add_reach(&size->elements, n.col, s->col))
        return false;
    const double indices = (double)n.batch * (double)n.head * (double)n.row * (double)n.col;
    const double elements = (double)size->elements;
    size->touched = (indices < elements ? indices : elements) * (double)element_size;
    return true;
}

static void size_flat(tensor_size *size, int64_t elements, size_t element_size) {
    const double touched = (double)elements * (double)element_size;
    *size = (tensor_size){true, elements, touched, element_size};
}

/* Q, K and V of the packed layout are one buffer, kept as that of Q. */
static bool size_packed(tensor_size *size, const lab_spec *spec, extents q) {
    const att_problem *p = &spec->problem;
    const extents n = {q.batch, 1, q.row, spec->v_offset + p->heads_kv * (p->d_v + spec->pad)};
    const att_strides strides = {.batch = q.row * n.col, .row = n.col, .col = 1};
    return size_strided(size, &strides, n, att_dtype_size(p->dtype));
}

static bool size_all(tensor_size size[LAB_TENSOR_COUNT], const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    const unsigned features = p->features;
    const bool cu_q = features & ATT_CU_SEQLENS_Q, cu_k = features & ATT_CU_SEQLENS_K;
    extents q = {cu_q ? 1 : p->batch, p->heads_q, cu_q ? p->total_q : p->seq_q, p->d_qk};
    extents k = {cu_k ? 1 : p->batch, p->heads_kv, cu_k ? p->total_k : p->seq_k, p->d_qk};
    if (features & ATT_PAGED)
        k = (extents){p->num_pages, p->heads_kv, p->page_size, p->d_qk};
    extents v = k, o = q, lse = q;
    v.col = o.col = p->d_v;
    lse.col = 1;
    const extents bias = {p->batch, p->heads_q, p->seq_q, p->seq_k};
    const size_t element = att_dtype_size(p->dtype);

    const bool fits = spec->layout == LAB_PACKED
                          ? size_packed(&size[LAB_Q], spec, q)
                          : size_strided(&size[LAB_Q], &p->q, q, element) &&
                                size_strided(&size[LAB_K], &p->k, k, element) &&
                                size_strided(&size[LAB_V], &p->v, v, element);
    if (!fits || !size_strided(&size[LAB_O], &p->o, o, att_dtype_size(p->dtype_o)))
        return false;
    if (spec->data == LAB_DATA_SPARSE)
        size[LAB_K].touched = size[LAB_V].touched = 0.0;
    if (features & ATT_LSE && !size_strided(&size[LAB_LSE], &p->lse, lse, sizeof(float)))
        return false;
    if (features & ATT_BIAS &&
        !size_strided(&size[LAB_BIAS], &p->bias, bias, att_dtype_size(p->bias_dtype)))
        return false;

    if (features & ATT_ALIBI) {
        int64_t slopes;
        if (!att_mul(p->heads_q, spec->alibi_per_batch ? p->batch : 1, &slopes))
            return false;
        size_flat(&size[LAB_ALIBI], slopes, sizeof(float));
    }
    if (features & ATT_SINKS)
        size_flat(&size[LAB_SINKS], p->heads_q, sizeof(float));
    if (cu_q)
        size_flat(&size[LAB_CU_Q], p->batch + 1, sizeof(int32_t));
    if (cu_k)
        size_flat(&size[LAB_CU_K], p->batch + 1, sizeof(int32_t));
    if (features & ATT_LENS_K)
        size_flat(&size[LAB_LENS_K], p->batch, sizeof(int32_t));
    if (features & ATT_PAGED) {
        int64_t entries;
        if (!att_mul(p->batch, p->page_table_stride, &entries))
            return false;
        size_flat(&size[LAB_PAGE_TABLE], entries, sizeof(int32_t));
    }
    return true;
}

/* ---------------------------------------------------------------------- life */

/* Sequences of a head that tensors are made for: they are filled and checked one by one. */
enum { SEQUENCES_MAX = 1 << 24 };

static bool check_sequences(const lab_spec *spec, lab_message *why) {
    const att_problem *p = &spec->problem;
    int64_t n;
    if (lab_spec_is_empty(spec) ||
        (att_mul(p->batch, att_max(p->heads_q, 1), &n) && n <= SEQUENCES_MAX))
        return true;
    const bool batch = p->batch >= p->heads_q;
    return lab_fail(why, "%s=%lld is too large: batch x heads_q is past %d",
                    batch ? "batch" : "heads_q", (long long)(batch ? p->batch : p->heads_q),
                    SEQUENCES_MAX);
}

static bool allocate(lab_tensors *t, lab_message *why) {
    tensor_size size[LAB_TENSOR_COUNT] = {{0}};
    if (!check_sequences(&t->spec, why))
        return false;
    if (!size_all(size, &t->spec))
        return lab_fail(why, "a tensor's size in elements does not fit 63 bits");
    double touched = 0.0;
    for (int i = 0; i < LAB_TENSOR_COUNT; i++)
        touched += size[i].touched;
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (touched > 0.75 * memory)
        return lab_fail(why, "the tensors take %.1f GiB, this machine has %.1f",
                        touched / 0x1p30, memory / 0x1p30);
    for (int i = 0; i < LAB_TENSOR_COUNT; i++) {
        int64_t bytes, shift;
        if (!size[i].present)
            continue;
        if (!att_mul(size[i].elements, (int64_t)size[i].element_size, &bytes) ||
            !att_mul(t->spec.offset, (int64_t)size[i].element_size, &shift))
            return lab_fail(why, "%s: its size in bytes does not fit 63 bits", tensor_names[i]);
        if (!lab_buffer_create(&t->buffer[i], (size_t)bytes, (size_t)shift, why))
            return false;
    }
    return true;
}

static void point_args(lab_tensors *t) {
    lab_buffer *b = t->buffer;
    t->args = (att_args){
        .size = sizeof(att_args),
        .q = b[LAB_Q].data,
        .k = b[LAB_K].data,
        .v = b[LAB_V].data,
        .o = b[LAB_O].data,
        .lse = (float *)(void *)b[LAB_LSE].data,
        .alibi = (const float *)(const void *)b[LAB_ALIBI].data,
        .bias = b[LAB_BIAS].data,
        .sinks = (const float *)(const void *)b[LAB_SINKS].data,
        .cu_seqlens_q = (const int32_t *)(const void *)b[LAB_CU_Q].data,
        .cu_seqlens_k = (const int32_t *)(const void *)b[LAB_CU_K].data,
        .lens_k = (const int32_t *)(const void *)b[LAB_LENS_K].data,
        .page_table = (const int32_t *)(const void *)b[LAB_PAGE_TABLE].data,
    };
    if (t->spec.layout == LAB_PACKED) {
        const int64_t element = (int64_t)att_dtype_size(t->spec.problem.dtype);
        t->args.k = b[LAB_Q].data + t->spec.k_offset * element;
        t->args.v = b[LAB_Q].data + t->spec.v_offset * element;
    }
}

static bool is_output(int tensor) {
    return tensor == LAB_O || tensor == LAB_LSE;
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
    point_args(t);
    for (int i = 0; i < LAB_TENSOR_COUNT; i++) {
        const bool sparse = spec->data == LAB_DATA_SPARSE && (i == LAB_K || i == LAB_V);
        if (t->buffer[i].map && t->buffer[i].bytes <= LAB_BUFFER_LARGE && !sparse)
            lab_buffer_poison(&t->buffer[i]);
    }
    lab_tensors_renew(t, seed);
    lab_tensors_poison_outputs(t);
    *out = t;
    return true;
}

void lab_tensors_renew(lab_tensors *t, uint64_t seed) {
    lab_tensors_fill(t, seed);
    for (int i = 0; i < LAB_TENSOR_COUNT; i++)
        if (t->buffer[i].map && !is_output(i))
            lab_buffer_seal(&t->buffer[i]);
}

void lab_tensors_destroy(lab_tensors *t) {
    if (!t)
        return;
    for (int i = 0; i < LAB_TENSOR_COUNT; i++)
        lab_buffer_destroy(&t->buffer[i]);
    free(t);
}

/* ------------------------------------------------------------------- outputs */

/* Call `visit` with each output row: bytes at O, then at LSE where there is one. */
static void for_output_rows(const lab_tensors *t,
                            void (*visit)(void *context, void *row, size_t bytes),
                            void *context) {
    const att_problem *p = &t->spec.problem;
    const int64_t o_element = (int64_t)att_dtype_size(p->dtype_o);
    if (lab_spec_is_empty(&t->spec))
        return;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < att_ref_len_q(p, &t->args, b); i++) {
                const int64_t o = att_ref_index_o(p, &t->args, b, h, i);
                visit(context, t->buffer[LAB_O].data + o * o_element,
                      (size_t)(p->d_v * o_element));
                if (p->features & ATT_LSE)
                    visit(context, t->args.lse + att_ref_index_lse(p, &t->args, b, h, i),
                          sizeof(float));
            }
}

static void poison_row(void *context, void *row, size_t bytes) {
    (void)context;
    memset(row, LAB_POISON, bytes);
}

void lab_tensors_poison_outputs(lab_tensors *t) {
    bool large = false;
    for (int i = LAB_O; i <= LAB_LSE; i++) {
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
    const att_problem *p = &t->spec.problem;
    const int64_t element = (int64_t)att_dtype_size(p->dtype_o);
    lab_random random;
    uint64_t hash = 1;
    lab_random_seed(&random, seed, STREAM_GLANCE);
    for (int n = 0; n < GLANCES && p->batch > 0; n++) {
        const int64_t b = lab_random_below(&random, p->batch);
        const int64_t h = lab_random_below(&random, p->heads_q);
        const int64_t rows = att_ref_len_q(p, &t->args, b);
        if (rows == 0)
            continue;
        const int64_t o =
            att_ref_index_o(p, &t->args, b, h, lab_random_below(&random, rows)) * element;
        hash = lab_hash(hash, t->buffer[LAB_O].data + o, (size_t)(p->d_v * element));
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
    if (t->spec.pad == 0 || b->bytes == 0 || b->bytes > LAB_BUFFER_LARGE)
        return true;
    marks m = {b, calloc(1, b->bytes)};
    if (!m.marked)
        return lab_fail(why, "no memory to check the padding of %s", tensor_names[tensor]);
    for_output_rows(t, mark_row, &m);
    size_t i = 0;
    while (i < b->bytes && (m.marked[i] || b->data[i] == LAB_POISON))
        i++;
    free(m.marked);
    return i == b->bytes || lab_fail(why, "%s: padding was written, %zu bytes from its start",
                                     tensor_names[tensor], i);
}

bool lab_tensors_check(const lab_tensors *t, lab_message *why) {
    for (int i = 0; i < LAB_TENSOR_COUNT; i++) {
        const lab_buffer *b = &t->buffer[i];
        if (!b->map)
            continue;
        if (!lab_buffer_guarded(b))
            return lab_fail(why, "%s: memory beside it was written", tensor_names[i]);
        if (!is_output(i) && !lab_buffer_sealed(b))
            return lab_fail(why, "%s: an input was changed", tensor_names[i]);
        if (is_output(i) && !check_output_padding(t, i, why))
            return false;
    }
    return true;
}
