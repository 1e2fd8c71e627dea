/* attention_draw.c: attention problems, valid and invalid ones. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/attention_case.h"

static const att_dtype types[] = {ATT_F32, ATT_F16, ATT_BF16};

/* A limit on multiply-adds: most cases are small, so that there are many. */
static bool is_too_much(const att_problem *p, double most) {
    return (double)p->batch * (double)p->heads_q * (double)(p->seq_q + 1) *
               (double)(p->seq_k + 1) * (double)(p->d_qk + p->d_v) >
           most;
}

static void draw_sizes(att_problem *p, random_input *in) {
    const int64_t heads_kv = draw_between(in, 1, 3), group = draw_between(in, 1, 4);
    int64_t seq_q = draw_chance(in, 70) ? draw_between(in, 0, 20) : draw_between(in, 0, 100);
    int64_t seq_k = draw_chance(in, 70) ? draw_between(in, 0, 40) : draw_between(in, 0, 700);
    if (draw_chance(in, 20))
        seq_q = 1;
    const int64_t d_qk =
        draw_chance(in, 50) ? 8 * draw_between(in, 1, 10) : draw_between(in, 1, 256);
    const int64_t d_v = draw_chance(in, 60) ? d_qk : draw_between(in, 1, 256);
    const int64_t batch = draw_chance(in, 5) ? draw_between(in, 0, 8) : draw_between(in, 1, 3);
    att_problem_init(p, batch, heads_kv * group, heads_kv, seq_q, seq_k, d_qk, d_v,
                     types[draw_byte(in) % 3]);
    const double most = draw_chance(in, 2) ? 2e6 : 5e4;
    while (is_too_much(p, most) && p->seq_k > 0) {
        p->seq_q = p->seq_q > 3 ? p->seq_q / 2 : p->seq_q;
        p->batch = p->batch > 1 ? p->batch - 1 : p->batch;
        p->seq_k = p->seq_k * 3 / 4;
    }
}

static void draw_mask(att_problem *p, random_input *in) {
    p->causal = (att_causal)draw_between(in, ATT_CAUSAL_NONE, ATT_CAUSAL_BOTTOM_RIGHT);
    if (p->causal == ATT_CAUSAL_NONE)
        p->align = (att_align)draw_between(in, ATT_ALIGN_TOP_LEFT, ATT_ALIGN_BOTTOM_RIGHT);
    else if (draw_chance(in, 50))
        p->align = (att_align)p->causal;
    if (draw_chance(in, 30))
        p->window_left = draw_between(in, 0, 40);
    if (draw_chance(in, 30))
        p->window_right = draw_between(in, 0, 40);
    if (draw_chance(in, 25))
        p->softcap = (float)draw_between(in, 1, 60) / 2.0f;
    if (draw_chance(in, 20))
        p->scale = (float)draw_between(in, -64, 64) / 64.0f;
}

static void draw_features(att_problem *p, random_input *in) {
    p->features = draw_chance(in, 30) ? 0 : draw_byte(in);
    if (draw_chance(in, 50))
        p->features &= ~(uint32_t)(ATT_PAGED | ATT_CU_SEQLENS_K);
    if (draw_chance(in, 60))
        p->features |= ATT_LSE;
    if (draw_chance(in, 25))
        p->features |= ATT_STARTS_K;
    p->total_q = p->batch * p->seq_q + draw_between(in, 0, 3);
    p->total_k = p->batch * p->seq_k + draw_between(in, 0, 3);
    p->page_size = draw_chance(in, 50) ? draw_between(in, 1, 20) : 1 << draw_between(in, 0, 7);
    p->num_pages = draw_between(in, 1, 8);
    p->bias_dtype = (att_dtype)draw_between(in, ATT_F32, ATT_BOOL8);
}

/* Multiply every stride of an array by `factor`: gaps between rows. */
static void spread(att_strides *s, int64_t factor) {
    s->batch *= factor;
    s->head *= factor;
    s->row *= factor;
}

static void draw_strides(att_problem *p, random_input *in) {
    int64_t k_offset, v_offset;
    const bool plain = !(p->features & (ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K | ATT_PAGED));
    const int64_t layout = draw_between(in, 0, 2);
    if (layout == 0 && plain && p->seq_q == p->seq_k)
        att_problem_layout_packed(p, &k_offset, &v_offset);
    else if (layout == 1)
        att_problem_layout_bhsd(p);
    else
        att_problem_layout_bshd(p);
    att_strides *all[] = {&p->q, &p->k, &p->v, &p->o, &p->lse};
    if (draw_chance(in, 25))
        spread(all[draw_byte(in) % 5], draw_between(in, 2, 3));
    if (draw_chance(in, 10)) { /* inputs may repeat */
        att_strides *input = all[draw_byte(in) % 3];
        int64_t *stride[] = {&input->batch, &input->head, &input->row};
        *stride[draw_byte(in) % 3] = 0;
    }
    const int64_t col = draw_chance(in, 20) ? draw_between(in, 0, 3) : 1;
    const int64_t row = draw_chance(in, 30) ? 0 : p->seq_k * (col ? col : 1);
    const int64_t head = draw_chance(in, 40) ? 0 : p->seq_q * p->seq_k * (col ? col : 1);
    p->bias = (att_strides){draw_chance(in, 40) ? 0 : head * p->heads_q, head, row, col};
    p->alibi_stride_batch = draw_chance(in, 50) ? 0 : p->heads_q + draw_between(in, 0, 2);
    p->page_table_stride += draw_between(in, 0, 2);
}

/* Drawn last: most inputs end before, and have none. */
static void draw_offsets(att_problem *p, random_input *in) {
    const int64_t kinds = draw_between(in, 0, 15);
    if (kinds & 1)
        p->q_offset = draw_between(in, 0, 60);
    if (kinds & 2)
        p->k_offset = draw_between(in, 0, 60);
    if (kinds & 4)
        p->features |= ATT_Q_OFFSETS;
    if (kinds & 8)
        p->features |= ATT_K_OFFSETS;
}

void attention_draw(att_problem *p, random_input *in) {
    draw_sizes(p, in);
    p->dtype_o = draw_chance(in, 50) ? p->dtype : types[draw_byte(in) % 3];
    draw_features(p, in);
    draw_mask(p, in);
    draw_strides(p, in);
    p->alignment = draw_chance(in, 30) ? 4 << draw_between(in, 0, 4) : 0;
    if (p->causal != ATT_CAUSAL_BOTTOM_RIGHT && p->align != ATT_ALIGN_BOTTOM_RIGHT)
        draw_offsets(p, in);
}

static void break_number(att_problem *p, random_input *in) {
    int64_t *fields[] = {&p->batch,       &p->heads_q,      &p->heads_kv,
                         &p->seq_q,       &p->seq_k,        &p->d_qk,
                         &p->d_v,         &p->q.batch,      &p->q.head,
                         &p->q.row,       &p->q.col,        &p->k.batch,
                         &p->k.head,      &p->k.row,        &p->k.col,
                         &p->v.batch,     &p->v.head,       &p->v.row,
                         &p->v.col,       &p->o.batch,      &p->o.head,
                         &p->o.row,       &p->o.col,        &p->lse.batch,
                         &p->lse.head,    &p->lse.row,      &p->lse.col,
                         &p->window_left, &p->window_right, &p->alibi_stride_batch,
                         &p->bias.batch,  &p->bias.head,    &p->bias.row,
                         &p->bias.col,    &p->total_q,      &p->total_k,
                         &p->page_size,   &p->num_pages,    &p->page_table_stride,
                         &p->alignment,   &p->q_offset,     &p->k_offset};
    *fields[draw_byte(in) % (sizeof fields / sizeof fields[0])] = draw_odd(in);
}

/* Enums are written as bytes: a C caller may pass a value that is not an enumerator. */
static void break_enum(void *field, random_input *in) {
    const uint32_t value = draw_chance(in, 70) ? draw_byte(in) % 8 : draw_u32(in);
    memcpy(field, &value, sizeof value);
}

void attention_break(att_problem *p, random_input *in) {
    for (int64_t n = draw_between(in, 1, 4); n > 0; n--) {
        void *enums[] = {&p->dtype, &p->dtype_o,    &p->causal, &p->align,
                         &p->scale, &p->bias_dtype, &p->softcap};
        if (draw_chance(in, 70))
            break_number(p, in);
        else if (draw_chance(in, 80))
            break_enum(enums[draw_byte(in) % 7], in);
        else
            p->features = draw_u32(in);
    }
    if (draw_chance(in, 20))
        att_problem_layout_bhsd(p);
    else if (draw_chance(in, 20))
        att_problem_layout_bshd(p);
}

void attention_print(const att_problem *p) {
    fprintf(stderr,
            "features 0x%x dtype %d dtype_o %d batch %lld heads %lld/%lld seq %lld/%lld d "
            "%lld/%lld causal %d align %d window %lld:%lld scale %g softcap %g total %lld/%lld "
            "pages %lld of %lld, stride %lld, bias %d, alibi %lld, alignment %lld, offsets "
            "%lld/%lld\n",
            p->features, (int)p->dtype, (int)p->dtype_o, (long long)p->batch,
            (long long)p->heads_q, (long long)p->heads_kv, (long long)p->seq_q,
            (long long)p->seq_k, (long long)p->d_qk, (long long)p->d_v, (int)p->causal,
            (int)p->align, (long long)p->window_left, (long long)p->window_right,
            (double)p->scale, (double)p->softcap, (long long)p->total_q, (long long)p->total_k,
            (long long)p->num_pages, (long long)p->page_size, (long long)p->page_table_stride,
            (int)p->bias_dtype, (long long)p->alibi_stride_batch, (long long)p->alignment,
            (long long)p->q_offset, (long long)p->k_offset);
    const struct {
        const char *name;
        const att_strides *s;
    } list[] = {{"q", &p->q}, {"k", &p->k},     {"v", &p->v},
                {"o", &p->o}, {"lse", &p->lse}, {"bias", &p->bias}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        fprintf(stderr, "%s %lld %lld %lld %lld\n", list[i].name, (long long)list[i].s->batch,
                (long long)list[i].s->head, (long long)list[i].s->row,
                (long long)list[i].s->col);
}
