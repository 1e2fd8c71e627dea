/* problems.c: small problems with the fields that their features need. */
#include "tests/support/problems.h"

att_problem problem_with(uint32_t features, att_dtype dtype) {
    att_problem p;
    att_problem_init(&p, 2, 4, 2, 5, 7, 8, 6, dtype);
    p.features = features;
    if (features & ATT_CU_SEQLENS_Q)
        p.total_q = 9;
    if (features & ATT_CU_SEQLENS_K)
        p.total_k = 13;
    att_problem_layout_bshd(&p);
    if (features & ATT_ALIBI)
        p.align = features & (ATT_Q_OFFSETS | ATT_K_OFFSETS) ? ATT_ALIGN_TOP_LEFT
                                                             : ATT_ALIGN_BOTTOM_RIGHT;
    if (features & ATT_BIAS) {
        p.bias_dtype = ATT_F32;
        p.bias = (att_strides){p.heads_q * p.seq_q * p.seq_k, p.seq_q * p.seq_k, p.seq_k, 1};
    }
    if (features & ATT_PAGED) {
        p.page_size = 4;
        p.num_pages = 5;
        p.page_table_stride = 3;
        p.k = (att_strides){p.page_size * p.heads_kv * p.d_qk, p.d_qk, p.heads_kv * p.d_qk, 1};
        p.v = (att_strides){p.page_size * p.heads_kv * p.d_v, p.d_v, p.heads_kv * p.d_v, 1};
    }
    return p;
}

att_problem problem_single(int64_t seq_q, int64_t seq_k, int64_t d, att_dtype dtype) {
    att_problem p;
    att_problem_init(&p, 1, 1, 1, seq_q, seq_k, d, d, dtype);
    return p;
}
