/* attention_arrays.c: the arrays of an attention case: sized as the header says, filled,
 * spoiled. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/attention_case.h"
#include "tests/fuzz/number_types.h"

/* Elements from the first to the last of an array; 0 if it has none. In double: sizes and
 * strides may be anything here. */
static double extent(const att_strides *s, int64_t batch, int64_t heads, int64_t rows,
                     int64_t cols) {
    if (batch <= 0 || heads <= 0 || rows <= 0 || cols <= 0)
        return 0.0;
    return (double)(batch - 1) * (double)(batch > 1 ? s->batch : 0) +
           (double)(heads - 1) * (double)(heads > 1 ? s->head : 0) +
           (double)(rows - 1) * (double)(rows > 1 ? s->row : 0) +
           (double)(cols - 1) * (double)(cols > 1 ? s->col : 0) + 1.0;
}

static int64_t pages_of(const att_problem *p) {
    return p->seq_k / p->page_size + (p->seq_k % p->page_size != 0);
}

static bool open_slot(attention_case *c, int slot, double elements, size_t size, size_t align,
                      unsigned char fill) {
    if (elements * (double)size > ARRAY_SLOT_BYTES / 2)
        return false;
    c->used[slot] = true;
    return array_open(&c->slots[slot], (size_t)elements * size, align, fill) != NULL;
}

/* What the problem promises of the bases of Q, K, V, O and the bias, or no more than their
 * elements of `size` bytes need. */
static size_t base_alignment(const att_problem *p, bool element_alignment, size_t size) {
    const size_t promised = p->alignment > 0 && p->alignment < 256 ? (size_t)p->alignment : 16;
    return element_alignment || promised < size ? size : promised;
}

/* Q, K, V and O. Inputs begin as NaN, in every type. */
static bool open_tensors(attention_case *c, bool element_alignment) {
    const att_problem *p = &c->problem;
    const bool paged = p->features & ATT_PAGED, packed_q = p->features & ATT_CU_SEQLENS_Q,
               packed_k = p->features & ATT_CU_SEQLENS_K;
    const int64_t batch_q = packed_q ? 1 : p->batch, rows_q = packed_q ? p->total_q : p->seq_q;
    const int64_t batch_k = paged ? p->num_pages : packed_k ? 1 : p->batch;
    const int64_t rows_k = paged ? p->page_size : packed_k ? p->total_k : p->seq_k;
    const size_t in = att_dtype_size(p->dtype), out = att_dtype_size(p->dtype_o);
    const size_t align = base_alignment(p, element_alignment, in),
                 align_o = base_alignment(p, element_alignment, out);
    bool ok = open_slot(c, SLOT_Q, extent(&p->q, batch_q, p->heads_q, rows_q, p->d_qk), in,
                        align, 0xff) &&
              open_slot(c, SLOT_K, extent(&p->k, batch_k, p->heads_kv, rows_k, p->d_qk), in,
                        align, 0xff) &&
              open_slot(c, SLOT_V, extent(&p->v, batch_k, p->heads_kv, rows_k, p->d_v), in,
                        align, 0xff) &&
              open_slot(c, SLOT_O, extent(&p->o, batch_q, p->heads_q, rows_q, p->d_v), out,
                        align_o, OUTPUT_FILL);
    if (ok && p->features & ATT_LSE)
        ok = open_slot(c, SLOT_LSE, extent(&p->lse, batch_q, p->heads_q, rows_q, 1), 4, 4,
                       OUTPUT_FILL);
    return ok;
}

static bool open_others(attention_case *c, bool element_alignment) {
    const att_problem *p = &c->problem;
    const size_t bias = att_dtype_size(p->bias_dtype);
    const double batch = (double)p->batch, entries = batch + 1.0;
    const att_strides slopes = {p->alibi_stride_batch, 1, 0, 0};
    const att_strides table = {p->page_table_stride, 1, 0, 0};
    bool ok = true;
    if (p->features & ATT_ALIBI)
        ok = ok &&
             open_slot(c, SLOT_ALIBI, extent(&slopes, p->batch, p->heads_q, 1, 1), 4, 4, 0);
    if (p->features & ATT_BIAS)
        ok = ok &&
             open_slot(c, SLOT_BIAS, extent(&p->bias, p->batch, p->heads_q, p->seq_q, p->seq_k),
                       bias, base_alignment(p, element_alignment, bias), 0);
    if (p->features & ATT_SINKS)
        ok = ok && open_slot(c, SLOT_SINKS, (double)p->heads_q, 4, 4, 0);
    if (p->features & ATT_CU_SEQLENS_Q)
        ok = ok && open_slot(c, SLOT_CU_Q, entries, 4, 4, 0);
    if (p->features & ATT_CU_SEQLENS_K)
        ok = ok && open_slot(c, SLOT_CU_K, entries, 4, 4, 0);
    if (p->features & ATT_LENS_K)
        ok = ok && open_slot(c, SLOT_LENS_K, batch, 4, 4, 0);
    if (p->features & ATT_STARTS_K)
        ok = ok && open_slot(c, SLOT_STARTS_K, batch, 4, 4, 0);
    if (p->features & ATT_Q_OFFSETS)
        ok = ok && open_slot(c, SLOT_Q_OFFSETS, batch, 4, 4, 0);
    if (p->features & ATT_K_OFFSETS)
        ok = ok && open_slot(c, SLOT_K_OFFSETS, batch, 4, 4, 0);
    if (p->features & ATT_PAGED)
        ok = ok &&
             open_slot(c, SLOT_PAGES, extent(&table, p->batch, pages_of(p), 1, 1), 4, 4, 0xff);
    return ok;
}

/* An array, or NULL if the problem has none. */
static void *array_of(const attention_case *c, int slot) {
    return c->used[slot] ? c->slots[slot].data : NULL;
}

static void point(attention_case *c, size_t workspace_bytes, random_input *in) {
    c->args = (att_args){.size = sizeof c->args,
                         .q = array_of(c, SLOT_Q),
                         .k = array_of(c, SLOT_K),
                         .v = array_of(c, SLOT_V),
                         .o = array_of(c, SLOT_O),
                         .lse = array_of(c, SLOT_LSE),
                         .alibi = array_of(c, SLOT_ALIBI),
                         .bias = array_of(c, SLOT_BIAS),
                         .sinks = array_of(c, SLOT_SINKS),
                         .cu_seqlens_q = array_of(c, SLOT_CU_Q),
                         .cu_seqlens_k = array_of(c, SLOT_CU_K),
                         .lens_k = array_of(c, SLOT_LENS_K),
                         .starts_k = array_of(c, SLOT_STARTS_K),
                         .q_offsets = array_of(c, SLOT_Q_OFFSETS),
                         .k_offsets = array_of(c, SLOT_K_OFFSETS),
                         .page_table = array_of(c, SLOT_PAGES),
                         .workspace_size = draw_chance(in, 50) ? workspace_bytes : 0};
    c->workspace = array_of(c, SLOT_WORKSPACE);
}

/* Lengths that start at 0 and are non-decreasing; none above `most`, nor their sum above
 * `total`. */
static void fill_cu(int32_t *cu, int64_t batch, int64_t most, int64_t total, random_input *in) {
    cu[0] = 0;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t left = total - cu[b], room = most < left ? most : left;
        cu[b + 1] = cu[b] + (int32_t)draw_between(in, 0, room < 1000 ? room : 1000);
    }
}

/* The page of the first used key: nothing reads the pages before it. */
static int64_t first_page(const attention_case *c, int64_t b) {
    return c->problem.features & ATT_PAGED ? c->start_k[b] / c->problem.page_size : 0;
}

static void place_rows(attention_case *c, int64_t b) {
    const int32_t *q_offsets = array_of(c, SLOT_Q_OFFSETS),
                  *k_offsets = array_of(c, SLOT_K_OFFSETS);
    c->offset[b] = c->problem.q_offset - c->problem.k_offset + (q_offsets ? q_offsets[b] : 0) -
                   (k_offsets ? k_offsets[b] : 0);
}

static void fill_lengths(attention_case *c, random_input *in) {
    const att_problem *p = &c->problem;
    int32_t *cu_q = array_of(c, SLOT_CU_Q), *cu_k = array_of(c, SLOT_CU_K),
            *lens_k = array_of(c, SLOT_LENS_K), *starts_k = array_of(c, SLOT_STARTS_K),
            *pages = array_of(c, SLOT_PAGES);
    if (cu_q)
        fill_cu(cu_q, p->batch, p->seq_q, p->total_q, in);
    const bool no_pages = pages && p->num_pages == 0; /* then no sequence has keys */
    if (cu_k) /* with pages only the differences count */
        fill_cu(cu_k, p->batch, p->seq_k, no_pages ? 0 : pages ? INT32_MAX : p->total_k, in);
    for (int64_t b = 0; b < p->batch; b++) {
        c->len_q[b] = cu_q ? cu_q[b + 1] - cu_q[b] : p->seq_q;
        c->len_k[b] = cu_k ? cu_k[b + 1] - cu_k[b] : p->seq_k;
        if (lens_k) {
            lens_k[b] = (int32_t)draw_between(in, 0, p->seq_k < 1000 ? p->seq_k : 1000);
            if (lens_k[b] < c->len_k[b])
                c->len_k[b] = lens_k[b];
        }
        if (no_pages)
            c->len_k[b] = 0;
        if (no_pages && lens_k)
            lens_k[b] = 0;
        c->start_k[b] = 0;
        if (starts_k)
            c->start_k[b] = starts_k[b] =
                (int32_t)draw_between(in, 0, p->seq_k < 1000 ? p->seq_k : 1000);
        int32_t *const offsets[] = {array_of(c, SLOT_Q_OFFSETS), array_of(c, SLOT_K_OFFSETS)};
        for (int side = 0; side < 2; side++)
            if (offsets[side])
                offsets[side][b] = (int32_t)draw_between(in, 0, 70);
        place_rows(c, b);
        for (int64_t i = first_page(c, b); pages && i * p->page_size < c->len_k[b]; i++)
            pages[b * p->page_table_stride + i] =
                (int32_t)draw_between(in, 0, p->num_pages - 1);
    }
}

static double ordinary(random_input *in) {
    return 2.0 * draw_value(in);
}

/* A special or extreme number. */
static double extreme(random_input *in) {
    static const double list[] = {INFINITY, -INFINITY, NAN, 1e-40, 3e38, -3e38, -0.0, 6e4};
    return draw_chance(in, 5) ? list[draw_byte(in) % 8] : ordinary(in);
}

static void fill_array(attention_case *c, int slot, att_dtype dtype, random_input *in) {
    if (!c->used[slot])
        return;
    const int64_t count = (int64_t)(c->slots[slot].bytes / att_dtype_size(dtype));
    for (int64_t i = 0; i < count; i++)
        store_number(c->slots[slot].data, dtype, i, c->finite ? ordinary(in) : extreme(in));
}

/* Fill only the rows of K and V that some row sees; the others stay NaN, which must not reach
 * the answer. */
static void fill_seen(attention_case *c, random_input *in) {
    const att_problem *p = &c->problem;
    const int64_t group = p->heads_q / p->heads_kv;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_kv; h++)
            for (int64_t j = c->start_k[b]; j < c->len_k[b]; j++) {
                bool seen = false;
                for (int64_t q = h * group; q < (h + 1) * group && !seen; q++)
                    for (int64_t i = 0; i < c->len_q[b] && !seen; i++)
                        seen = !attention_hides(c, b, q, i, j);
                const int64_t k = attention_key_at(c, &p->k, b, h, j),
                              v = attention_key_at(c, &p->v, b, h, j);
                for (int64_t x = 0; x < p->d_qk && seen; x++)
                    store_number(c->slots[SLOT_K].data, p->dtype, k + x, ordinary(in));
                for (int64_t x = 0; x < p->d_v && seen; x++)
                    store_number(c->slots[SLOT_V].data, p->dtype, v + x, ordinary(in));
            }
}

bool attention_open(attention_case *c, random_input *in, size_t workspace_bytes,
                    bool element_alignment) {
    const att_problem *p = &c->problem;
    memset(c->used, 0, sizeof c->used);
    const double work = (double)p->batch * (double)p->heads_q * ((double)p->seq_q + 1.0) *
                        ((double)p->seq_k + 1.0) * ((double)p->d_qk + (double)p->d_v);
    if (p->batch > CASE_BATCH_MOST || p->heads_q > 4096 || p->seq_k > 1 << 20 || work > 4e6 ||
        !open_tensors(c, element_alignment) || !open_others(c, element_alignment) ||
        !open_slot(c, SLOT_WORKSPACE, (double)workspace_bytes, 1, ATT_WORKSPACE_ALIGN, 0xff))
        return false;
    point(c, workspace_bytes, in);
    fill_lengths(c, in);
    /* Far from all keys, slopes leave float32 no room for the products. */
    const bool far = p->features & ATT_ALIBI && llabs(p->q_offset - p->k_offset) > 1 << 16;
    c->finite = !draw_chance(in, 8) && !far;
    fill_array(c, SLOT_Q, p->dtype, in);
    fill_array(c, SLOT_ALIBI, ATT_F32, in);
    fill_array(c, SLOT_BIAS, p->bias_dtype, in);
    fill_array(c, SLOT_SINKS, ATT_F32, in);
    if (c->finite && draw_chance(in, 25)) {
        fill_seen(c, in);
    } else {
        fill_array(c, SLOT_K, p->dtype, in);
        fill_array(c, SLOT_V, p->dtype, in);
    }
    return true;
}

/* ------------------------------------------------------------------ what is wrong with a
 * call */

/* Another value for a pointer of the arguments. */
static void set_pointer(att_args *a, int slot, const void *value) {
    void *writable = (void *)(uintptr_t)value;
    switch (slot) {
    case SLOT_Q:
        a->q = value;
        break;
    case SLOT_K:
        a->k = value;
        break;
    case SLOT_V:
        a->v = value;
        break;
    case SLOT_O:
        a->o = writable;
        break;
    case SLOT_LSE:
        a->lse = writable;
        break;
    case SLOT_ALIBI:
        a->alibi = value;
        break;
    case SLOT_BIAS:
        a->bias = value;
        break;
    case SLOT_SINKS:
        a->sinks = value;
        break;
    case SLOT_CU_Q:
        a->cu_seqlens_q = value;
        break;
    case SLOT_CU_K:
        a->cu_seqlens_k = value;
        break;
    case SLOT_LENS_K:
        a->lens_k = value;
        break;
    case SLOT_STARTS_K:
        a->starts_k = value;
        break;
    case SLOT_Q_OFFSETS:
        a->q_offsets = value;
        break;
    case SLOT_K_OFFSETS:
        a->k_offsets = value;
        break;
    default:
        a->page_table = value;
    }
}

/* NULL, unaligned, or set although the problem has no such array. */
static attention_fault spoil_pointer(attention_case *c, random_input *in) {
    const int slot = draw_byte(in) % SLOT_WORKSPACE;
    if (!c->used[slot]) {
        set_pointer(&c->args, slot, c->slots[SLOT_Q].data);
        return FAULT_ARGUMENT;
    }
    if (c->slots[slot].bytes == 0)
        return FAULT_NONE;
    if (draw_chance(in, 50)) {
        set_pointer(&c->args, slot, NULL);
        return FAULT_ARGUMENT;
    }
    if (slot == SLOT_BIAS && c->problem.bias_dtype == ATT_BOOL8)
        return FAULT_NONE; /* bytes have no alignment */
    set_pointer(&c->args, slot, c->slots[slot].data + 1);
    return FAULT_ARGUMENT;
}

/* Whether offsets start at 0, are non-decreasing, and respect the longest sequence and the
 * total. */
static bool cu_holds(const int32_t *cu, int64_t batch, int64_t most, int64_t total) {
    if (cu[0] != 0 || cu[batch] > total)
        return false;
    for (int64_t b = 0; b < batch; b++)
        if (cu[b + 1] < cu[b] || cu[b + 1] - cu[b] > most)
            return false;
    return true;
}

/* Recompute lengths from the arrays; false if they make no sense. */
static bool recount(attention_case *c) {
    const att_problem *p = &c->problem;
    const int32_t *cu_q = array_of(c, SLOT_CU_Q), *cu_k = array_of(c, SLOT_CU_K),
                  *lens_k = array_of(c, SLOT_LENS_K), *starts_k = array_of(c, SLOT_STARTS_K),
                  *pages = array_of(c, SLOT_PAGES);
    if ((cu_q && !cu_holds(cu_q, p->batch, p->seq_q, p->total_q)) ||
        (cu_k && !cu_holds(cu_k, p->batch, p->seq_k, pages ? INT32_MAX : p->total_k)))
        return false;
    for (int64_t b = 0; b < p->batch; b++) {
        c->len_q[b] = cu_q ? cu_q[b + 1] - cu_q[b] : p->seq_q;
        c->len_k[b] = cu_k ? cu_k[b + 1] - cu_k[b] : p->seq_k;
        if (lens_k && (lens_k[b] < 0 || lens_k[b] > p->seq_k))
            return false;
        if (lens_k && lens_k[b] < c->len_k[b])
            c->len_k[b] = lens_k[b];
        if (starts_k && (starts_k[b] < 0 || starts_k[b] > p->seq_k))
            return false;
        c->start_k[b] = starts_k ? starts_k[b] : 0;
        const int32_t *const offsets[] = {array_of(c, SLOT_Q_OFFSETS),
                                          array_of(c, SLOT_K_OFFSETS)};
        for (int side = 0; side < 2; side++)
            if (offsets[side] && offsets[side][b] < 0)
                return false;
        place_rows(c, b);
        if (c->start_k[b] >= c->len_k[b])
            continue; /* no used key, so no page */
        for (int64_t i = first_page(c, b); pages && i * p->page_size < c->len_k[b]; i++) {
            const int32_t id = pages[b * p->page_table_stride + i];
            if (id < 0 || id >= p->num_pages)
                return false;
        }
    }
    return true;
}

static attention_fault spoil_data(attention_case *c, random_input *in) {
    static const int slots[] = {SLOT_CU_Q,  SLOT_CU_K,      SLOT_LENS_K,   SLOT_STARTS_K,
                                SLOT_PAGES, SLOT_Q_OFFSETS, SLOT_K_OFFSETS};
    const int slot = slots[draw_byte(in) % (sizeof slots / sizeof slots[0])];
    const size_t count = c->used[slot] ? c->slots[slot].bytes / 4 : 0;
    if (count == 0)
        return FAULT_NONE;
    int32_t *list = (int32_t *)(void *)c->slots[slot].data;
    list[draw_u32(in) % count] = (int32_t)draw_odd(in);
    c->finite = false; /* rows that nothing saw before may be NaN */
    return recount(c) ? FAULT_NONE : FAULT_DATA;
}

bool attention_lacks_pages(const attention_case *c) {
    const att_problem *p = &c->problem;
    return (p->features & ATT_PAGED) && p->num_pages == 0 && p->seq_k > 0 &&
           !(p->features & (ATT_LENS_K | ATT_CU_SEQLENS_K));
}

attention_fault attention_spoil(attention_case *c, random_input *in) {
    switch (draw_between(in, 0, 5)) {
    case 0:
    case 1:
        return spoil_pointer(c, in);
    case 2:
        return spoil_data(c, in);
    case 3:
        if (c->slots[SLOT_O].bytes == 0 || c->slots[SLOT_Q].bytes == 0)
            return FAULT_NONE;
        c->args.o = c->slots[SLOT_Q].data;
        return FAULT_ARGUMENT;
    case 4:
        c->args.size = (size_t)draw_odd(in);
        if (c->args.size >= sizeof c->args)
            c->args.size = draw_byte(in) % 32;
        return FAULT_MAYBE;
    default:
        if (c->slots[SLOT_WORKSPACE].bytes == 0)
            return FAULT_NONE;
        c->workspace = draw_chance(in, 50) ? NULL : (char *)c->workspace + 1;
        return FAULT_ARGUMENT;
    }
}
