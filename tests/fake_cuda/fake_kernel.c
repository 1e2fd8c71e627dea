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

static double product(const att_fwd_params *p, long long q, long long k) {
    float sum = 0.0f; /* float32 like the kernels, whose errors define the bar */
    for (int c = 0; c < p->d_qk; c++)
        sum += att_load(p->q, (att_dtype)p->dtype, q + c) *
               att_load(p->k, (att_dtype)p->dtype, k + c);
    return (double)sum * (double)p->scale;
}

static void compute_row(const att_fwd_params *p, const entry *e, int head, int i, double *s,
                        bool wrong) {
    const int kv = head / p->group;
    const int lo = p->window_left < 0
                       ? e->start_k
                       : (int)fmax(e->start_k, i + e->shift - (double)p->window_left);
    const int hi = p->window_right < 0
                       ? e->len_k
                       : (int)fmin(e->len_k, i + e->shift + (double)p->window_right + 1);
    double top = -INFINITY, sum = 0.0;
    const long long q = offset(&p->q_stride, e, p->cu_seqlens_q, head, e->row_q + i);
    for (int j = lo; j < hi; j++) {
        s[j] = product(p, q, offset(&p->k_stride, e, p->cu_seqlens_k, kv, e->row_k + j));
        top = s[j] > top ? s[j] : top;
    }
    for (int j = lo; j < hi; j++) {
        s[j] = exp(s[j] - top);
        sum += s[j];
    }
    const long long o = offset(&p->o_stride, e, p->cu_seqlens_q, head, e->row_q + i);
    for (int c = 0; c < p->d_v; c++) {
        double x = 0.0;
        for (int j = lo; j < hi; j++)
            x += s[j] * (double)att_load(
                            p->v, (att_dtype)p->dtype,
                            offset(&p->v_stride, e, p->cu_seqlens_k, kv, e->row_k + j) + c);
        att_store(p->o, (att_dtype)p->dtype_o, o + c,
                  wrong || sum == 0.0 ? 0.0f : (float)(x / sum));
    }
    if (p->lse)
        p->lse[offset(&p->lse_stride, e, p->cu_seqlens_q, head, e->row_q + i)] =
            (float)(top + log(sum));
}

void fake_attention(const att_fwd_params *p, bool wrong) {
    double *scores = malloc((size_t)(p->seq_k + 1) * sizeof *scores);
    for (int b = 0; scores && b < p->batch; b++) {
        const entry e = entry_of(p, b);
        for (int head = 0; head < p->heads_q; head++)
            for (int i = 0; i < e.len_q; i++)
                compute_row(p, &e, head, i, scores, wrong);
    }
    free(scores);
}
