/* fwd_params.h: parameters that the host passes by value to every forward kernel. Read as C11,
 * as CUDA C and by NVRTC, so it includes nothing and its layout is the same for all three.
 *
 * Strides count elements. A tensor that the problem does not have is NULL. Lengths, offsets and
 * page ids are in device memory, where the host cannot check them without waiting. The kernels
 * clamp them (fwd_sequence.cuh), so that a bad one can give a wrong answer but never a read out
 * of bounds. */
#ifndef ATT_FWD_PARAMS_H
#define ATT_FWD_PARAMS_H

typedef struct att_fwd_strides {
    long long batch, head, row, col;
} att_fwd_strides;

/* A divisor prepared for kernels: n / value = umulhi(n, multiplier) >> shift for 0 <= n < 2^31,
 * value > 1. */
typedef struct att_fwd_divisor {
    unsigned value, multiplier, shift;
} att_fwd_divisor;

/* The values of att_dtype, for device code. */
enum { ATT_FWD_F32 = 1, ATT_FWD_F16 = 2, ATT_FWD_BF16 = 3, ATT_FWD_BOOL8 = 4 };

/* att_fwd_params.flags */
enum {
    ATT_FWD_BOTTOM_RIGHT = 1, /* diagonal(i) = i + len_k - len_q instead of i */
    ATT_FWD_VECTOR = 2        /* every row of Q, K, V and O starts at a multiple of 16 bytes */
};

/* Rows that a warp of fwd_combine processes at once if there are many. */
enum { ATT_FWD_ROWS_AT_ONCE = 2 };

typedef struct att_fwd_params {
    const void *q, *k, *v;
    void *o;
    float *lse;
    const float *alibi;
    const void *bias;
    const float *sinks;
    const int *cu_seqlens_q, *cu_seqlens_k, *lens_k, *page_table;
    /* Parts of the keys: O of every row of every part relative to 2^top, not divided by its sum,
     * (part, batch, head, row, d_v), and in the same order its top and its sum: the weights,
     * added up relative to 2^top. A row that sees no key of the part has a top of -inf; its O is
     * then ignored. A NaN as sum marks a row that exceeds the range of float32. NULL if the rows
     * are written directly. */
    float *partial_o, *partial_sums;

    att_fwd_strides q_stride, k_stride, v_stride, o_stride, lse_stride, bias_stride;
    long long alibi_batch; /* stride of the slopes between batch entries */
    long long page_table_stride;
    long long total_q, total_k; /* rows in packed Q and K; bounds for cu_seqlens */

    int batch, heads_q, heads_kv, group; /* group = heads_q / heads_kv */
    int seq_q, seq_k;                    /* the longest */
    int d_qk, d_v;
    int dtype, dtype_o, bias_dtype; /* ATT_FWD_F32 ... */
    int flags;
    int window_left,
        window_right; /* keys visible beside the diagonal; causal: right = 0; -1: no limit */
    int page_size, num_pages;
    int splits;     /* parts of the keys, at least 1; blockIdx.y is the part */
    int row_blocks; /* tiles along the rows of one (batch, head) */
    int row_warps;  /* warps per combined row: 1 or all; 0: ATT_FWD_ROWS_AT_ONCE rows each */

    att_fwd_divisor by_row_blocks, by_heads_q, by_heads_kv, by_group, by_seq_q, by_splits;

    float scale;      /* of the scores */
    float scale_log2; /* scale * log2(e); if softcap > 0: scale / softcap */
    float softcap;    /* 0: none */

    const int *starts_k; /* the first key in use per batch entry */

    /* Positions of the first row and key in a longer sequence, per batch entry. Their difference
     * is added to `offset`, that of the whole call, and the sum clamped. Without them `shift` is
     * the diagonal of row 0, clamped. */
    const int *q_offsets, *k_offsets;
    long long offset;
    int shift, shift_least, shift_most;
} att_fwd_params;

#endif
