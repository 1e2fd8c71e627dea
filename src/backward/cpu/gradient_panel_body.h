/* gradient_panel_body.h: the five products of a tile with vector instructions, over the vf of
 * the including file.
 *
 * Operands are words of 32 bits: a float32, or a pair of bfloat16 that are consecutive along
 * the summed dimension. All products have the same inner loop as forward's
 * (attention/cpu/panel_body.h): MR broadcast words times NV vectors, held in MR * NV registers.
 *
 *   product               left operand                 right operand, in panels of PANEL
 *   S   = Q K^T           q        [rows][d_qk]        k         [keys / PANEL][d_qk][PANEL]
 *   d_p = d_o V^T         d_o      [rows][d_v]         v         [keys / PANEL][d_v][PANEL]
 *   d_v = P^T d_o         weights  [rows][keys]        d_o_right [d_v / PANEL][rows][PANEL]
 *   d_k = d_s^T Q         d_scores [rows][keys]        q_right   [d_qk / PANEL][rows][PANEL]
 *   d_q = d_s K           d_scores_left [rows][keys]   k_right   [d_qk / PANEL][keys][PANEL]
 *
 * The summed dimension is counted in words. The right operands of the last three contain no NaN
 * and no infinity: a row that sees such a key has NaN in its d_s, and the other rows must not
 * get any.
 *
 * The including file provides
 *   NV                vectors per panel, to fill its register file
 *   WORD_ELEMENTS     numbers per word
 *   BLOCK_ROWS, CHUNK_KEYS
 *   word_multiply     sum + left * right, lane by lane, all numbers of a word
 *   load_words        words of a row from element x on, zeros past its end
 *   load_word_rows    VF_W columns of the WORD_ELEMENTS rows of a word, twice for pairs */
#ifndef ATT_BACKWARD_CPU_GRADIENT_PANEL_BODY_H
#define ATT_BACKWARD_CPU_GRADIENT_PANEL_BODY_H

enum { MR = 6, PANEL = NV * VF_W };
enum { STRIP_ROWS = 4 * MR, KEY_STEP = 2 * VF_W, KEY_GROUP = MR, WEIGH_ROWS = WORD_ELEMENTS };
/* Words per row of arrays indexed by keys: room for whole groups of MR keys, and not a power of
 * two. */
enum { KEYS_STRIDE = CHUNK_KEYS + 16, KEYS_PADDED = (CHUNK_KEYS + MR - 1) / MR * MR };
_Static_assert(BLOCK_ROWS % STRIP_ROWS == 0, "a block is whole strips");
_Static_assert(BLOCK_ROWS / STRIP_ROWS <= STRIPS_MOST, "the strips of a block fit a tile");
_Static_assert(CHUNK_KEYS % PANEL == 0, "a chunk is whole panels");
_Static_assert(KEYS_PADDED <= KEYS_STRIDE, "the last group of keys is within a row");
_Static_assert(WORD_ELEMENTS == 1 || STRIP_ROWS % 2 == 0, "pairs of rows do not cross strips");

static inline int64_t words_of(int64_t elements) {
    return att_ceil_div(elements, WORD_ELEMENTS);
}

static int64_t sum_width(int64_t d) {
    return att_round_up(d, PANEL);
}

static int64_t sum_stride(const att_problem *p) {
    return sum_width(p->d_qk);
}

/* c[MR][nv vectors] (+)= a * b[depth][PANEL]; element (r, k) of a is a[r * a_row + k * a_word].
 * nv and strides of 1 are constants once inlined. The product is summed by itself before it is
 * added to c: a sum over thousands of rows is then one of a few dozen short sums, which keeps
 * its rounding errors small. */
VF_INLINE void multiply_nv(const int nv, const bool add, int64_t depth, const float *a,
                           int64_t a_row, int64_t a_word, const float *b, float *c,
                           int64_t ldc) {
    vf sum[MR][NV];
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < nv; v++)
            sum[r][v] = vf_set1(0.0f);
    for (int64_t k = 0; k < depth; k++, b += PANEL, a += a_word) {
        vf right[NV];
        for (int v = 0; v < nv; v++)
            right[v] = vf_load(b + v * VF_W);
        for (int r = 0; r < MR; r++) {
            const vf left = vf_set1(a[r * a_row]);
            for (int v = 0; v < nv; v++)
                sum[r][v] = word_multiply(left, right[v], sum[r][v]);
        }
    }
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < nv; v++) {
            float *to = c + r * ldc + v * VF_W;
            vf_store(to, add ? vf_add(vf_load(to), sum[r][v]) : sum[r][v]);
        }
}

/* The same for the first `width` columns of the panel. */
VF_INLINE void multiply(const bool add, int64_t width, int64_t depth, const float *a,
                        int64_t a_row, int64_t a_word, const float *b, float *c, int64_t ldc) {
    if (NV > 2 && width <= 2 * VF_W)
        multiply_nv(2, add, depth, a, a_row, a_word, b, c, ldc);
    else
        multiply_nv(NV, add, depth, a, a_row, a_word, b, c, ldc);
}

/* Rows unchanged, `words` of each. */
VF_INLINE void pack_left(const char **rows, int64_t count, int64_t padded, int64_t d,
                         const att_dtype dtype, char *to_bytes) {
    const int64_t words = words_of(d), whole = d / (VF_W * WORD_ELEMENTS) * VF_W;
    float *to = (float *)(void *)to_bytes;
    for (int64_t r = 0; r < count; r++, to += words) {
        for (int64_t x = 0; x < whole; x += VF_W)
            vf_store(to + x, load_words(rows[r], x * WORD_ELEMENTS, INT64_MAX, dtype));
        if (whole < words)
            vf_store_as(to + whole, ATT_F32,
                        load_words(rows[r], whole * WORD_ELEMENTS, d, dtype), words - whole);
    }
    memset(to, 0, (size_t)((padded - count) * words) * sizeof *to);
}

/* Rows transposed into panels of PANEL rows. */
VF_INLINE void pack_transposed(const char **rows, int64_t count, int64_t d,
                               const att_dtype dtype, char *to_bytes) {
    const int64_t words = words_of(d);
    for (int64_t j = 0; j < att_round_up(count, PANEL); j += VF_W) {
        float *to = (float *)(void *)to_bytes + j / PANEL * PANEL * words + j % PANEL;
        for (int64_t x = 0; x < words; x += VF_W) {
            vf block[VF_W];
            for (int i = 0; i < VF_W; i++)
                block[i] = j + i < count ? load_words(rows[j + i], x * WORD_ELEMENTS, d, dtype)
                                         : vf_set1(0.0f);
            vf_transpose(block);
            for (int64_t i = 0; i < VF_W && x + i < words; i++)
                vf_store(to + (x + i) * PANEL, block[i]);
        }
    }
}

/* A panel of rows from element x on; `whole`, a constant, says that all of it is within the
 * rows. */
VF_INLINE void pack_panel(const char **rows, int64_t count, int64_t padded, int64_t x,
                          int64_t d, const bool whole, const att_dtype dtype, float *to) {
    for (int64_t j = 0; j < padded; j += WORD_ELEMENTS, to += PANEL)
        for (int v = 0; v < NV; v += WORD_ELEMENTS) {
            vf columns[WORD_ELEMENTS];
            load_word_rows(rows + j, count - j, x + v * VF_W, whole ? INT64_MAX : d, dtype,
                           columns);
            for (int i = 0; i < WORD_ELEMENTS; i++)
                vf_store(to + (v + i) * VF_W, columns[i]);
        }
}

/* Rows into panels of PANEL columns, [panel][most / WORD_ELEMENTS][PANEL]; values that are not
 * finite are replaced. */
VF_INLINE void pack_right(const char **rows, int64_t count, int64_t padded, int64_t most,
                          int64_t d, const att_dtype dtype, char *to_bytes) {
    float *to = (float *)(void *)to_bytes;
    for (int64_t x = 0; x < d; x += PANEL, to += most / WORD_ELEMENTS * PANEL) {
        if (x + PANEL <= d)
            pack_panel(rows, count, padded, x, d, true, dtype, to);
        else
            pack_panel(rows, count, padded, x, d, false, dtype, to);
    }
}

static size_t floats(int64_t count) {
    return (size_t)count * sizeof(float);
}

/* Allocate 64-byte aligned pieces of the scratch; with base NULL, only count. */
static void *take(char *base, size_t *used, size_t bytes) {
    char *piece = base ? base + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return piece;
}

static void operands_map(gradient_tile *t, const att_problem *p, char *base, size_t *used) {
    const int64_t wide_qk = sum_width(p->d_qk), wide_v = sum_width(p->d_v);
    t->k = take(base, used, floats(CHUNK_KEYS * words_of(p->d_qk)));
    t->v = take(base, used, floats(CHUNK_KEYS * words_of(p->d_v)));
    t->k_right = take(base, used, floats(words_of(CHUNK_KEYS) * wide_qk));
    t->q = take(base, used, floats(BLOCK_ROWS * words_of(p->d_qk)));
    t->d_o = take(base, used, floats(BLOCK_ROWS * words_of(p->d_v)));
    t->q_right = take(base, used, floats(words_of(BLOCK_ROWS) * wide_qk));
    t->d_o_right = take(base, used, floats(words_of(BLOCK_ROWS) * wide_v));
    t->d_k = take(base, used, floats(KEYS_PADDED * wide_qk));
    t->d_v = take(base, used, floats(KEYS_PADDED * wide_v));
    weights_map(t, base, used);
}

static void pack_keys_as(const gradient_tile *t, const att_dtype dtype) {
    const att_problem *p = t->job->base.p;
    const att_cpu_job *job = &t->job->base;
    const int64_t stepped = att_round_up(t->keys, KEY_STEP);
    att_cpu_kv_rows(job, &t->s, job->a->k, &p->k, t->j0, t->keys, t->addresses);
    pack_transposed(t->addresses, t->keys, p->d_qk, dtype, t->k);
    if (!t->scores_only)
        pack_right(t->addresses, t->keys, stepped, CHUNK_KEYS, p->d_qk, dtype, t->k_right);
    att_cpu_kv_rows(job, &t->s, job->a->v, &p->v, t->j0, t->keys, t->addresses);
    pack_transposed(t->addresses, t->keys, p->d_v, dtype, t->v);
}

static void pack_keys(const gradient_tile *t) {
    const att_dtype dtype = t->job->base.p->dtype;
    if (dtype == ATT_F32)
        pack_keys_as(t, ATT_F32);
    else if (dtype == ATT_F16)
        pack_keys_as(t, ATT_F16);
    else
        pack_keys_as(t, ATT_BF16);
}

VF_INLINE void pack_row_operands(const gradient_tile *t, int64_t d, const att_dtype dtype,
                                 char *left, char *right) {
    const int64_t padded = att_round_up(t->rows, STRIP_ROWS);
    pack_left(t->addresses, t->rows, padded, d, dtype, left);
    if (!t->scores_only)
        pack_right(t->addresses, t->rows, padded, BLOCK_ROWS, d, dtype, right);
}

static void pack_row_operand(const gradient_tile *t, int64_t d, att_dtype dtype, char *left,
                             char *right) {
    if (dtype == ATT_F32)
        pack_row_operands(t, d, ATT_F32, left, right);
    else if (dtype == ATT_F16)
        pack_row_operands(t, d, ATT_F16, left, right);
    else
        pack_row_operands(t, d, ATT_BF16, left, right);
}

/* Addresses of the block's rows in a tensor of one row per query. */
static void find_rows(const gradient_tile *t, const void *base, const att_strides *st,
                      att_dtype dtype) {
    const int64_t bytes = att_dtype_bytes(dtype);
    for (int64_t r = 0; r < t->rows; r++) {
        const att_cpu_query q = att_cpu_query_of(&t->job->base, &t->s, tile_row(t, r));
        t->addresses[r] =
            (const char *)base +
            att_query_offset(t->job->base.p, st, &t->s, q.head, q.position) * bytes;
    }
}

static void pack_rows(const gradient_tile *t) {
    const att_problem *p = t->job->base.p;
    find_rows(t, t->job->base.a->q, &p->q, p->dtype);
    pack_row_operand(t, p->d_qk, p->dtype, t->q, t->q_right);
    find_rows(t, t->job->base.a->d_o, &p->grad_o, p->dtype_o);
    scale_d_o(t);
    pack_row_operand(t, p->d_v, p->dtype_o, t->d_o, t->d_o_right);
}

/* c[STRIP_ROWS][keys] = left rows of the strip times panels of keys. */
static void strip_product(const gradient_tile *t, int64_t row, att_cpu_interval keys, int64_t d,
                          const char *left, const char *right, float *c) {
    const int64_t words = words_of(d);
    const float *a = (const float *)(const void *)left + row * words;
    for (int64_t x = keys.lo / PANEL * PANEL; x < keys.hi; x += PANEL) {
        const float *panel = (const float *)(const void *)right + x * words;
        for (int64_t r = 0; r < STRIP_ROWS && row + r < t->rows; r += MR)
            multiply(false, keys.hi - x, words, a + r * words, words, 1, panel,
                     c + r * KEYS_STRIDE + x, KEYS_STRIDE);
    }
}

static void strip_products(const gradient_tile *t, int64_t row, att_cpu_interval keys) {
    const att_problem *p = t->job->base.p;
    strip_product(t, row, keys, p->d_qk, t->q, t->k, strip_s(t, row));
    strip_product(t, row, keys, p->d_v, t->d_o, t->v, strip_d_p(t, row));
}

static void clear_key_sums(const gradient_tile *t) {
    const att_problem *p = t->job->base.p;
    memset(t->d_k, 0, floats(KEYS_PADDED * sum_width(p->d_qk)));
    memset(t->d_v, 0, floats(KEYS_PADDED * sum_width(p->d_v)));
}

/* The rows of the block, in whole strips, that include every row that sees one of the keys j ..
 * j + MR - 1. */
static att_cpu_interval rows_of_keys(const gradient_tile *t, int64_t j) {
    att_cpu_interval rows = {INT64_MAX, 0};
    for (int64_t row = 0; row < t->rows; row += STRIP_ROWS) {
        const att_cpu_interval keys = t->strip_keys[row / STRIP_ROWS];
        if (keys.lo < j + MR && keys.hi > j) {
            rows.lo = att_min(rows.lo, row);
            rows.hi = row + STRIP_ROWS;
        }
    }
    return rows;
}

/* c[keys][d] += left^T right. The words of a group of keys and all of `right` stay in the L1
 * cache. */
static void add_product(const gradient_tile *t, const char *left, const char *right, int64_t d,
                        float *c) {
    const int64_t width = sum_width(d), depth = BLOCK_ROWS / WORD_ELEMENTS;
    for (int64_t j = t->block_keys.lo / MR * MR; j < t->block_keys.hi; j += MR) {
        const att_cpu_interval rows = rows_of_keys(t, j);
        const int64_t first = rows.lo / WORD_ELEMENTS;
        const float *a = (const float *)(const void *)left + first * KEYS_STRIDE + j;
        for (int64_t x = 0; x < width && rows.hi > rows.lo; x += PANEL)
            multiply(true, d - x, (rows.hi - rows.lo) / WORD_ELEMENTS, a, 1, KEYS_STRIDE,
                     (const float *)(const void *)right + x * depth + first * PANEL,
                     c + j * width + x, width);
    }
}

static void add_key_sums(const gradient_tile *t) {
    const att_problem *p = t->job->base.p;
    add_product(t, t->weights, t->d_o_right, p->d_v, t->d_v);
    add_product(t, t->d_scores, t->q_right, p->d_qk, t->d_k);
}

/* d_q of the strip's rows: `sums` is set if `first`, otherwise added to. */
static void add_row_sums(const gradient_tile *t, int64_t row, att_cpu_interval keys, bool first,
                         float *sums) {
    const int64_t d = t->job->base.p->d_qk, width = sum_width(d);
    const int64_t from = keys.lo / WORD_ELEMENTS, depth = words_of(keys.hi - keys.lo);
    for (int64_t x = 0; x < width; x += PANEL) {
        const float *panel =
            (const float *)(const void *)t->k_right + x * words_of(CHUNK_KEYS) + from * PANEL;
        for (int64_t r = 0; r < STRIP_ROWS && row + r < t->rows; r += MR) {
            const float *left = d_scores_row(t, row + r) + from;
            float *c = sums + r * width + x;
            if (first)
                multiply(false, d - x, depth, left, LEFT_STRIDE, 1, panel, c, width);
            else
                multiply(true, d - x, depth, left, LEFT_STRIDE, 1, panel, c, width);
        }
    }
}

static void settle_key_sums(const gradient_tile *t) {
    (void)t; /* already rows of floats */
}

/* There is no state besides the vector registers. */
static void products_enter(void) {
}
static void products_leave(void) {
}

#endif
