/* fake_merge.c: merge row by row, in the kernel's order and with its divisors, so that wrong parameters show. */
#include "tests/fake_cuda/fake_merge.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

bool fake_is_merge(const char *kernel) {
    return strncmp(kernel, "merge", 5) == 0;
}

static int dtype_of(const char *kernel) {
    return strstr(kernel, "_bf16")  ? ATT_FWD_BF16
           : strstr(kernel, "_f16") ? ATT_FWD_F16
           : strstr(kernel, "_f32") ? ATT_FWD_F32
                                    : 0;
}

static unsigned divide(unsigned n, const att_fwd_divisor *by) {
    const uint64_t product = (uint64_t)n * by->multiplier;
    return by->value == 1 ? n : (unsigned)(product >> 32) >> by->shift;
}

static long long place(const att_fwd_strides *s, unsigned batch, unsigned head, unsigned row) {
    return batch * s->batch + head * s->head + row * s->row;
}

static float weigh(float lse, float top) {
    if (lse == top)
        return lse == -INFINITY ? 0.0f : 1.0f;
    return expf(lse - top);
}

static void merge_row(const att_merge_params *p, int type, unsigned row, bool wrong) {
    const unsigned pair = divide(row, &p->by_seq), batch = divide(pair, &p->by_heads);
    const unsigned i = row - pair * (unsigned)p->seq, head = pair - batch * (unsigned)p->heads;
    const long long part_lse = place(&p->part_lse_stride, batch, head, i);
    const long long part_o = place(&p->part_o_stride, batch, head, i);
    const long long o = place(&p->o_stride, batch, head, i);
    float top = -INFINITY, sum = 0.0f;
    for (int n = 0; n < p->parts; n++)
        top = fmaxf(top, p->part_lse[n][part_lse]);
    for (int n = 0; n < p->parts; n++)
        sum += weigh(p->part_lse[n][part_lse], top);
    for (int c = 0; c < p->d; c++) {
        float x = 0.0f;
        for (int n = 0; n < p->parts; n++) {
            const float weight =
                sum == 0.0f ? 0.0f : weigh(p->part_lse[n][part_lse], top) / sum;
            if (weight != 0.0f) /* what an empty part holds may be NaN */
                x = fmaf(weight, att_load(p->part_o[n], (att_dtype)type, part_o + c), x);
        }
        att_store(p->o, (att_dtype)p->dtype_o, o + c, wrong ? 0.0f : x);
    }
    if (p->lse)
        p->lse[place(&p->lse_stride, batch, head, i)] =
            sum == 0.0f ? -INFINITY : top + logf(sum);
}

/* Where 16 bytes are moved at a time, every row must start at a multiple of them. */
static bool has_vectors(const att_merge_params *p, int type) {
    const long long in = type == ATT_FWD_F32 ? 4 : 2, out = p->dtype_o == ATT_FWD_F32 ? 4 : 2;
    uintptr_t bits = (uintptr_t)p->o | (uintptr_t)(p->d * in) | (uintptr_t)(p->d * out);
    for (int n = 0; n < p->parts; n++)
        bits |= (uintptr_t)p->part_o[n];
    for (long long row = 0; row < p->rows; row++) {
        const unsigned pair = divide((unsigned)row, &p->by_seq);
        const unsigned batch = divide(pair, &p->by_heads);
        const unsigned i = (unsigned)row - pair * (unsigned)p->seq;
        const unsigned head = pair - batch * (unsigned)p->heads;
        bits |= (uintptr_t)(place(&p->part_o_stride, batch, head, i) * in) |
                (uintptr_t)(place(&p->o_stride, batch, head, i) * out);
    }
    return bits % 16 == 0;
}

bool fake_merge(const char *kernel, const att_merge_params *p, unsigned blocks,
                unsigned threads, bool wrong) {
    const int type = dtype_of(kernel), lanes = p->row_lanes;
    if (!type || p->parts < 1 || p->parts > ATT_MERGE_PARTS || lanes < 4 || lanes > 32 ||
        (lanes & (lanes - 1)) != 0 || (p->vector && !has_vectors(p, type)))
        return false;
    const long long covered = (long long)blocks * (threads / (unsigned)lanes);
    for (long long row = 0; row < covered && row < p->rows; row++)
        merge_row(p, type, (unsigned)row, wrong);
    return true;
}
