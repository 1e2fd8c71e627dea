/* conditions_cuda.c: the problems that the GPU kernels accept. */
#include "attention/cuda/conditions_cuda.h"

#include "attention/cuda/alignment.h"
#include "attention/cuda/band.h"
#include "attention/cuda/decode_tiling.h"
#include "attention/cuda/hopper.h"
#include "attention/cuda/hopper_bias.h"
#include "attention/cuda/hopper_choice.h"
#include "attention/cuda/mask_lists.h"
#include "attention/cuda/rungs.h"
#include "attention/cuda/shares.h"
#include "attention/cuda/softcap.h"
#include "base/checked.h"
#include "base/dtype.h"

/* Kernels count rows, keys and heads in 32 bits, and add a tile to the counts. */
static const int64_t count_most = INT32_MAX - 65535;

static bool counts_fit(const att_problem *p, att_refusal *refusal) {
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {
        {"batch", p->batch},
        {"heads_q", p->heads_q},
        {"seq_q", p->seq_q},
        {"seq_k", p->seq_k},
        {"page_size", p->features & ATT_PAGED ? p->page_size : 0},
        {"batch", p->batch * p->heads_q}, /* cannot overflow: the problem was checked */
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        ATT_CONDITION(counts[i].value <= count_most, counts[i].name,
                      "%s%s=%lld does not fit the 32 bits that GPU kernels count in",
                      counts[i].name, i == 5 ? " x heads_q" : "", (long long)counts[i].value);
    const char *field, *why = att_cuda_band_refusal(p, &field);
    ATT_CONDITION(!why, field, "%s %s", field, why);
    return true;
}

/* The problem's score modifications must be exactly those compiled into the row. */
static bool shapes_scores(const att_cuda_kernel *k, const att_problem *p,
                          att_refusal *refusal) {
    const bool bias = p->features & ATT_BIAS;
    const struct {
        uint32_t feature;
        bool has;
        const char *field, *name;
    } all[] = {
        {ATT_FEATURE_SOFTCAP, p->softcap > 0.0f, "softcap", "softcap"},
        {ATT_FEATURE_ALIBI, (p->features & ATT_ALIBI) != 0, "features", "ALiBi"},
        {ATT_FEATURE_BIAS, bias && p->bias_dtype != ATT_BOOL8, "features", "bias"},
        {ATT_FEATURE_MASK, bias && p->bias_dtype == ATT_BOOL8, "features", "boolean mask"},
    };
    ATT_CONDITION(p->scale > 0.0f, "scale", "scale=%g is not above 0", (double)p->scale);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const bool built_in = k->features & all[i].feature;
        ATT_CONDITION(built_in || !all[i].has, all[i].field, "has no %s", all[i].name);
        ATT_CONDITION(!built_in || all[i].has, all[i].field, "is for problems with %s",
                      all[i].name);
    }
    return true;
}

static bool has_vectors(const att_problem *p, att_refusal *refusal) {
    ATT_CONDITION(p->d_qk % 8 == 0, "d_qk", "d_qk=%lld is not a multiple of 8",
                  (long long)p->d_qk);
    ATT_CONDITION(p->d_v % 8 == 0, "d_v", "d_v=%lld is not a multiple of 8", (long long)p->d_v);
    const char *field;
    const size_t alignment = att_cuda_row_alignment(p, &field);
    ATT_CONDITION(!field, field, "rows are aligned to %zu bytes, not to 16", alignment);
    return true;
}

static bool moves_vectors(const att_problem *p, att_refusal *refusal) {
    ATT_CONDITION(p->dtype_o == p->dtype, "dtype_o", "writes %s, as Q is, not %s",
                  att_dtype_name(p->dtype), att_dtype_name(p->dtype_o));
    return has_vectors(p, refusal);
}

/* The plain kernels do not modify the scores, and move 16 bytes at a time. */
static bool is_plain(const att_cuda_kernel *k, const att_problem *p, att_refusal *refusal) {
    if (!shapes_scores(k, p, refusal))
        return false;
    ATT_CONDITION(!(p->features & ATT_SINKS), "features", "has no sinks");
    ATT_CONDITION(!(p->features & ATT_PAGED), "features", "reads no pages");
    return moves_vectors(p, refusal);
}

/* Conditions of every row: type, head dimensions, sizes in range. */
static bool takes_sizes(const att_cuda_kernel *k, const att_problem *p, att_refusal *refusal) {
    ATT_CONDITION(!k->dtype || k->dtype == p->dtype, "dtype", "is for %s, not %s",
                  att_dtype_name(k->dtype), att_dtype_name(p->dtype));
    ATT_CONDITION(p->d_qk <= k->d_qk, "d_qk", "d_qk=%lld is above %d", (long long)p->d_qk,
                  k->d_qk);
    ATT_CONDITION(p->d_v <= k->d_v, "d_v", "d_v=%lld is above %d", (long long)p->d_v, k->d_v);
    return counts_fit(p, refusal);
}

/* Split keys: more than one tile of them, unless O is of a type that only the kernel that merges
 * the parts writes; and this kernel. */
static bool has_parts(const att_cuda_kernel *k, const att_limits *limits, const att_problem *p,
                      att_refusal *refusal) {
    ATT_CONDITION(p->dtype_o == p->dtype || p->dtype_o == ATT_F32, "dtype_o",
                  "writes %s, as Q is, or f32, not %s", att_dtype_name(p->dtype),
                  att_dtype_name(p->dtype_o));
    ATT_CONDITION(p->seq_k > k->tile_n || p->dtype_o != p->dtype, "seq_k",
                  "splits keys, and one tile holds all %lld", (long long)p->seq_k);
    ATT_CONDITION(p->batch * p->heads_q <= INT32_MAX / att_max(p->seq_q, 1), "seq_q",
                  "more rows than parts are merged for");
    ATT_CONDITION(att_cuda_combine_of(k, limits->allow_unattested), "flags",
                  "no kernel that is attested merges the parts");
    return true;
}

bool att_cuda_serves_hopper(const att_kernel_row *row, const att_limits *limits,
                            const void *problem, att_refusal *refusal) {
    const att_cuda_kernel *k = row->cuda;
    const att_problem *p = problem;
    ATT_CONDITION(
        !(k->features & ATT_FEATURE_MASK) || att_cuda_mask_reader(limits->allow_unattested),
        "flags", "the kernel that reads masks has no evidence");
    /* The copy engine moves 16 bytes at a time in any role; it handles pages like other
     * keys. */
    if (!takes_sizes(k, p, refusal) ||
        (k->role != ATT_ROLE_GENERAL && !shapes_scores(k, p, refusal)) ||
        !(k->role == ATT_ROLE_SPLIT ? has_vectors : moves_vectors)(p, refusal))
        return false;
    att_fwd_softcap cap;
    ATT_CONDITION(!(k->features & ATT_FEATURE_SOFTCAP) || att_cuda_softcap_of(&cap, p),
                  "softcap", "softcap=%g with scale=%g is out of its polynomials' range",
                  (double)p->softcap, (double)p->scale);
    const char *field, *why = att_cuda_hopper_bias_refusal(k, p);
    ATT_CONDITION(!why, "bias", "%s", why);
    why = att_cuda_hopper_refusal(k, p, &field);
    ATT_CONDITION(!why, field, "%s", why);
    ATT_CONDITION(k->role != ATT_ROLE_SMALL || !(p->features & ATT_PAGED), "features",
                  "reads no pages");
    return k->role != ATT_ROLE_SPLIT || has_parts(k, limits, p, refusal);
}

bool att_cuda_serves_blocks(const att_kernel_row *row, const att_limits *limits,
                            const void *problem, att_refusal *refusal) {
    const att_cuda_role role = row->cuda->role;
    (void)limits;
    if (!takes_sizes(row->cuda, problem, refusal))
        return false;
    return (role != ATT_ROLE_PLAIN && role != ATT_ROLE_SMALL) ||
           is_plain(row->cuda, problem, refusal);
}

/* Few positions: the heads of a group share every key that is read. */
bool att_cuda_serves_decode(const att_kernel_row *row, const att_limits *limits,
                            const void *problem, att_refusal *refusal) {
    const att_problem *p = problem;
    (void)limits;
    if (!takes_sizes(row->cuda, p, refusal))
        return false;
    ATT_CONDITION(p->seq_q <= row->cuda->tile_m, "seq_q", "seq_q=%lld is above %d",
                  (long long)p->seq_q, row->cuda->tile_m);
    return true;
}

/* The same, with the keys divided among the blocks of a cluster; 16 bytes at a time. */
bool att_cuda_serves_cluster(const att_kernel_row *row, const att_limits *limits,
                             const void *problem, att_refusal *refusal) {
    if (!att_cuda_serves_decode(row, limits, problem, refusal))
        return false;
    const char *field;
    const char *why = att_cuda_decode_refusal(row->cuda, problem, &field);
    ATT_CONDITION(!why, field, "%s", why);
    return has_vectors(problem, refusal);
}

/* The same for sequences of unequal lengths, whose keys are divided among all blocks. */
bool att_cuda_serves_shares(const att_kernel_row *row, const att_limits *limits,
                            const void *problem, att_refusal *refusal) {
    const att_problem *p = problem;
    if (!att_cuda_serves_cluster(row, limits, p, refusal))
        return false;
    ATT_CONDITION(att_cuda_shares_countable(row->cuda, p), "seq_k",
                  "more steps over the keys than 32 bits count");
    ATT_CONDITION(att_cuda_join_of(row->cuda, limits->allow_unattested), "flags",
                  "no kernel that is attested joins the parts");
    return true;
}

bool att_cuda_serves_rung(const att_kernel_row *row, const att_limits *limits,
                          const void *problem, att_refusal *refusal) {
    if (!takes_sizes(row->cuda, problem, refusal))
        return false;
    const char *field = NULL;
    const char *why = att_cuda_rung_refusal(row->family->asks, row->cuda, problem, &field);
    ATT_CONDITION(!why, field, "%s", why);
    ATT_CONDITION(limits->allow_slow, "flags",
                  "is slower than the tensor-core kernels; ATT_ALLOW_SLOW allows it");
    return true;
}

bool att_cuda_serves_nothing(const att_kernel_row *row, const att_limits *limits,
                             const void *problem, att_refusal *refusal) {
    (void)limits, (void)problem;
    ATT_CONDITION(false, "role", "%s",
                  row->cuda->role == ATT_ROLE_MASK ? "reads masks for other kernels"
                                                   : "merges what other kernels leave");
    return true;
}

/* Prefer small tiles if blocks of 128 rows would leave much of the GPU idle: fewer than three
 * per two SMs. */
double att_cuda_blocks_estimate(const att_kernel_row *row, const att_limits *limits,
                                const void *problem) {
    enum { SOONER = 1, LIKE_ANY = 2, LATER = 3 };
    const att_problem *p = problem;
    const int64_t blocks = p->batch * p->heads_q * att_ceil_div(p->seq_q, 128);
    if (row->cuda->role != ATT_ROLE_SMALL)
        return LIKE_ANY;
    return 2 * blocks < 3 * (int64_t)limits->gpu->sms ? SOONER : LATER;
}
