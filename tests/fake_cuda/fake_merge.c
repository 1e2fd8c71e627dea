/* fake_merge.c: merge row by row, in the kernel's order and with its divisors, so that wrong
 * parameters are noticed. */
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

/* A row of the output, in the kernel's numbering. */
typedef struct row_index {
    int batch, far, near;
} row_index;

static row_index index_of_block(const att_merge_params *p, unsigned block, int rows) {
    const unsigned pair = divide(block, &p->by_inner), batch = divide(pair, &p->by_outer);
    const int inner = (int)(block - pair * (unsigned)p->inner),
              outer = (int)(pair - batch * (unsigned)p->outer);
    return (row_index){.batch = (int)batch,
                       .far = p->far_inside ? inner : outer,
                       .near = (p->far_inside ? outer : inner) * rows};
}

static long long place(const att_fwd_strides *s, row_index at) {
    return at.batch * s->batch + at.far * s->head + at.near * s->row;
}

static float weigh(float lse, float top) {
    if (lse == top)
        return lse == -INFINITY ? 0.0f : 1.0f;
    return expf(lse - top);
}

static void merge_row(const att_merge_params *p, int type, row_index at, bool wrong) {
    const long long part_lse = place(&p->part_lse_stride, at);
    const long long part_o = place(&p->part_o_stride, at);
    const long long o = place(&p->o_stride, at);
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
            if (weight != 0.0f) /* the contents of an empty part may be NaN */
                x = fmaf(weight, att_load(p->part_o[n], (att_dtype)type, part_o + c), x);
        }
        att_store(p->o, (att_dtype)p->dtype_o, o + c, wrong ? 0.0f : x);
    }
    if (p->lse)
        p->lse[place(&p->lse_stride, at)] = sum == 0.0f ? -INFINITY : top + logf(sum);
}

/* If 16 bytes are moved at a time, every row must start at a multiple of 16. */
static bool is_whole(const att_merge_params *p, int type, row_index at) {
    const long long in = type == ATT_FWD_F32 ? 4 : 2, out = p->dtype_o == ATT_FWD_F32 ? 4 : 2;
    const long long own = place(&p->o_stride, at) * out,
                    part = place(&p->part_o_stride, at) * in;
    uintptr_t bits =
        ((uintptr_t)p->o + (uintptr_t)own) | (uintptr_t)(p->d * in) | (uintptr_t)(p->d * out);
    for (int n = 0; n < p->parts; n++)
        bits |= (uintptr_t)p->part_o[n] + (uintptr_t)part;
    return bits % 16 == 0;
}

/* If threads weigh few parts themselves, they must have a whole row, and O the type of the
 * parts. */
static bool may_be_few(const att_merge_params *p, int type) {
    const int width = type == ATT_FWD_F32 ? 4 : 8;
    return p->vector && p->parts <= ATT_MERGE_FEW && p->dtype_o == type &&
           p->d <= (ATT_MERGE_FEW_VECTORS * width) << p->lanes_log2;
}

bool fake_merge(const char *kernel, const att_merge_params *p, unsigned blocks,
                unsigned threads, bool wrong) {
    const int type = dtype_of(kernel);
    if (!type || p->parts < 1 || p->parts > ATT_MERGE_PARTS || p->lanes_log2 < 2 ||
        p->lanes_log2 > 5 || (p->few && !may_be_few(p, type)))
        return false;
    const int rows = (int)(threads >> p->lanes_log2);
    for (unsigned block = 0; block < blocks; block++) {
        row_index at = index_of_block(p, block, rows);
        const int end = at.near + rows < p->near ? at.near + rows : p->near;
        for (; at.near < end; at.near++) {
            if (p->vector && !is_whole(p, type, at))
                return false;
            merge_row(p, type, at, wrong);
        }
    }
    return true;
}
