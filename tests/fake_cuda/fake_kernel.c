/* fake_kernel.c: attention on the host, from the parameters of a kernel, and a model of its
 * duration. */
#include "tests/fake_cuda/fake_kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

bool fake_computes(void) {
    const char *text = getenv("FAKE_CUDA_COMPUTES");
    return text && strcmp(text, "1") == 0;
}

bool fake_is_wrong(const char *code) {
    const char *flag = getenv("FAKE_CUDA_WRONG");
    return flag && *flag && strstr(code, flag);
}

/* The number after -DNAME= in the flags. */
static double flag_of(const char *code, const char *name) {
    const char *at = strstr(code, name);
    return at ? atof(at + strlen(name)) : 1.0;
}

double fake_duration(const char *code) {
    const double base = 200.0;
    if (strncmp(code, "--gpu-architecture", 18) != 0)
        return base;
    double factor = 0.9 + 0.10 * fabs(log2(flag_of(code, "-DTILE_M=") / 64.0)) +
                    0.05 * fabs(log2(flag_of(code, "-DTILE_N=") / 64.0)) +
                    0.05 * fabs(flag_of(code, "-DSTAGES=") - 3.0) +
                    0.05 * fabs(log2(flag_of(code, "-DWARPS=") / 4.0));
    for (const char *at = code; (at = strstr(at, "-DUSE_")); at++)
        factor += 0.04;
    return base * factor;
}

void fake_hopper_tile(const char *code, int tile[2]) {
    const bool hopper =
        strncmp(code, "--gpu-architecture", 18) == 0 && strstr(code, " kernels/fwd_sm90");
    tile[0] = hopper ? (int)flag_of(code, "-DTILE_M=") : 0;
    tile[1] = hopper ? (int)flag_of(code, "-DTILE_N=") : 0;
}

/* One batch entry: lengths and first rows. */
typedef struct entry {
    int batch, len_q, len_k, start_k;
    long long row_q, row_k;
    int shift;
} entry;

int fake_shift(const att_fwd_params *p, int batch) {
    if (!p->q_offsets && !p->k_offsets)
        return p->shift;
    const long long shift = p->offset + (p->q_offsets ? p->q_offsets[batch] : 0) -
                            (p->k_offsets ? p->k_offsets[batch] : 0);
    return (int)(shift < p->shift_least  ? p->shift_least
                 : shift > p->shift_most ? p->shift_most
                                         : shift);
}

static entry entry_of(const att_fwd_params *p, int batch) {
    entry e = {.batch = batch, .len_q = p->seq_q, .len_k = p->seq_k};
    if (p->cu_seqlens_q) {
        e.row_q = p->cu_seqlens_q[batch];
        e.len_q = p->cu_seqlens_q[batch + 1] - p->cu_seqlens_q[batch];
    }
    if (p->cu_seqlens_k) {
        e.row_k = p->cu_seqlens_k[batch];
        e.len_k = p->cu_seqlens_k[batch + 1] - p->cu_seqlens_k[batch];
    }
    if (p->lens_k && p->lens_k[batch] < e.len_k)
        e.len_k = p->lens_k[batch];
    e.shift = p->flags & ATT_FWD_BOTTOM_RIGHT ? e.len_k - e.len_q : fake_shift(p, batch);
    e.start_k = p->starts_k ? p->starts_k[batch] : 0;
    return e;
}

static long long offset(const att_fwd_strides *s, const entry *e, bool packed, int head,
                        long long row) {
    return (packed ? 0 : e->batch * s->batch) + head * s->head + row * s->row;
}

/* The keys that row `i` sees. */
static int first_key(const att_fwd_params *p, const entry *e, int i) {
    return p->window_left < 0 ? e->start_k
                              : (int)fmax(e->start_k, i + e->shift - (double)p->window_left);
}

static int end_key(const att_fwd_params *p, const entry *e, int i) {
    return p->window_right < 0
               ? e->len_k
               : (int)fmin(e->len_k, i + e->shift + (double)p->window_right + 1);
}

/* One head of K and V as float32, converted once for all rows: the keys that any row sees. K is
 * transposed, so that the innermost loops run over independent sums, which the compiler
 * vectorises without changing the order of any of them. */
typedef struct head_kv {
    int first, count;
    float *k; /* [d_qk][count] */
    float *v; /* [count][d_v] */
} head_kv;

static void load_head(const att_fwd_params *p, const entry *e, int kv, head_kv *h) {
    h->first = first_key(p, e, 0);
    h->count = end_key(p, e, e->len_q - 1) - h->first;
    for (int j = 0; j < h->count; j++) {
        const long long row = e->row_k + h->first + j;
        const long long k = offset(&p->k_stride, e, p->cu_seqlens_k, kv, row);
        const long long v = offset(&p->v_stride, e, p->cu_seqlens_k, kv, row);
        for (int c = 0; c < p->d_qk; c++)
            h->k[(size_t)c * (size_t)h->count + (size_t)j] =
                att_load(p->k, (att_dtype)p->dtype, k + c);
        for (int c = 0; c < p->d_v; c++)
            h->v[(size_t)j * (size_t)p->d_v + (size_t)c] =
                att_load(p->v, (att_dtype)p->dtype, v + c);
    }
}

/* What a row needs: `sums` and `scores` have a place for each key of the head, `o` one for each
 * column of V. */
typedef struct row_room {
    float *sums;
    double *scores, *o;
} row_room;

static void compute_row(const att_fwd_params *p, const entry *e, const head_kv *h, int head,
                        int i, const row_room *room, bool wrong) {
    const int lo = first_key(p, e, i) - h->first, hi = end_key(p, e, i) - h->first;
    float *restrict sums =
        room->sums; /* float32 like the kernels, whose errors define the bar */
    double *restrict s = room->scores, *restrict x = room->o;
    double top = -INFINITY, sum = 0.0;
    const long long q = offset(&p->q_stride, e, p->cu_seqlens_q, head, e->row_q + i);
    for (int j = lo; j < hi; j++)
        sums[j] = 0.0f;
    for (int c = 0; c < p->d_qk; c++) {
        const float *restrict k = h->k + (size_t)c * (size_t)h->count;
        const float factor = lo < hi ? att_load(p->q, (att_dtype)p->dtype, q + c) : 0.0f;
        for (int j = lo; j < hi; j++)
            sums[j] += factor * k[j];
    }
    for (int j = lo; j < hi; j++) {
        s[j] = (double)sums[j] * (double)p->scale;
        top = s[j] > top ? s[j] : top;
    }
    for (int j = lo; j < hi; j++) {
        s[j] = exp(s[j] - top);
        sum += s[j];
    }
    for (int c = 0; c < p->d_v; c++)
        x[c] = 0.0;
    for (int j = lo; j < hi; j++) {
        const float *restrict v = h->v + (size_t)j * (size_t)p->d_v;
        for (int c = 0; c < p->d_v; c++)
            x[c] += s[j] * (double)v[c];
    }
    const long long o = offset(&p->o_stride, e, p->cu_seqlens_q, head, e->row_q + i);
    for (int c = 0; c < p->d_v; c++)
        att_store(p->o, (att_dtype)p->dtype_o, o + c,
                  wrong || sum == 0.0 ? 0.0f : (float)(x[c] / sum));
    if (p->lse)
        p->lse[offset(&p->lse_stride, e, p->cu_seqlens_q, head, e->row_q + i)] =
            (float)(top + log(sum));
}

static void compute_entry(const att_fwd_params *p, const entry *e, head_kv *h,
                          const row_room *room, bool wrong) {
    for (int head = 0; e->len_q > 0 && head < p->heads_q; head++) {
        if (head % p->group == 0)
            load_head(p, e, head / p->group, h);
        for (int i = 0; i < e->len_q; i++)
            compute_row(p, e, h, head, i, room, wrong);
    }
}

void fake_attention(const att_fwd_params *p, bool wrong) {
    size_t most = 1; /* keys of an entry: a packed one may have more than seq_k */
    for (int b = 0; b < p->batch; b++) {
        const entry e = entry_of(p, b);
        most = e.len_k > (int)most ? (size_t)e.len_k : most;
    }
    const size_t columns = (size_t)(p->d_qk + p->d_v);
    float *floats = malloc((most * columns + most) * sizeof *floats);
    double *doubles = malloc((most + (size_t)p->d_v) * sizeof *doubles);
    head_kv h = {.k = floats, .v = floats ? floats + most * (size_t)p->d_qk : NULL};
    const row_room room = {floats ? floats + most * columns : NULL, doubles,
                           doubles ? doubles + most : NULL};
    for (int b = 0; floats && doubles && b < p->batch; b++) {
        const entry e = entry_of(p, b);
        compute_entry(p, &e, &h, &room, wrong);
    }
    free(floats);
    free(doubles);
}
