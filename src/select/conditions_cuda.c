/* conditions_cuda.c: what the GPU kernels ask of a problem. */
#include "base/checked.h"
#include "base/dtype.h"
#include "cuda/alignment.h"
#include "cuda/decode_tiling.h"
#include "cuda/family.h"
#include "cuda/hopper.h"
#include "cuda/hopper_choice.h"
#include "cuda/module.h"
#include "cuda/rungs.h"
#include "cuda/shape.h"
#include "select/conditions.h"

/* Kernels count rows, keys and heads in 32 bits, and add a tile to them. */
static const int64_t count_most = INT32_MAX - 65535;

bool att_cuda_row_runs(const att_cuda_kernel *k, const att_limits *limits,
                       att_refusal *refusal) {
    const int cc = limits->gpu->cc;
    ATT_CONDITION(k->targets & att_cuda_target_of(limits->gpu), "cc",
                  "is not written for compute capability %d.%d", cc / 10, cc % 10);
    ATT_CONDITION(
        att_cuda_origin_of(k, cc) != ATT_ORIGIN_NONE, "cc",
        "the library has no code for compute capability %d.%d, and no compiler is found",
        cc / 10, cc % 10);
    const long long shared = att_cuda_kernel_shared(k);
    ATT_CONDITION(shared <= limits->gpu->shared_per_block, "device",
                  "needs %lld bytes of shared memory a block, the GPU has %d", shared,
                  limits->gpu->shared_per_block);
    return true;
}

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
        {"batch", p->batch * p->heads_q}, /* a checked problem: this does not overflow */
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        ATT_CONDITION(counts[i].value <= count_most, counts[i].name,
                      "%s%s=%lld does not fit the 32 bits that GPU kernels count in",
                      counts[i].name, i == 5 ? " x heads_q" : "", (long long)counts[i].value);
    return true;
}

static bool keeps_scores(const att_problem *p, att_refusal *refusal) {
    ATT_CONDITION(p->scale > 0.0f, "scale", "scale=%g is not above 0", (double)p->scale);
    ATT_CONDITION(p->softcap == 0.0f, "softcap", "has no softcap");
    ATT_CONDITION(!(p->features & ATT_ALIBI), "features", "has no ALiBi");
    ATT_CONDITION(!(p->features & ATT_BIAS), "features", "has no bias");
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

/* The plain kernels leave the scores as they are and move 16 bytes at a time. */
static bool is_plain(const att_problem *p, att_refusal *refusal) {
    if (!keeps_scores(p, refusal))
        return false;
    ATT_CONDITION(!(p->features & ATT_SINKS), "features", "has no sinks");
    ATT_CONDITION(!(p->features & ATT_PAGED), "features", "reads no pages");
    return moves_vectors(p, refusal);
}

/* Hopper's copy engine moves 16 bytes at a time whatever the role; it walks pages as it does the rest. */
static bool is_for_hopper(const att_cuda_kernel *k, const att_limits *limits,
                          const att_problem *p, att_refusal *refusal) {
    if (k->role != ATT_ROLE_GENERAL && !keeps_scores(p, refusal))
        return false;
    if (!moves_vectors(p, refusal))
        return false;
    const char *field;
    const char *why = att_cuda_hopper_refusal(k, p, &field);
    ATT_CONDITION(!why, field, "%s", why);
    ATT_CONDITION(k->role != ATT_ROLE_SMALL || !(p->features & ATT_PAGED), "features",
                  "reads no pages");
    /* Asked for by name, a row serves whatever it can. */
    const char *sooner =
        limits->kernel[0] ? NULL : att_cuda_hopper_sooner(k, p, limits->gpu->sms);
    ATT_CONDITION(!sooner, "seq_q", "tiles of %s end sooner on %d SMs", sooner,
                  limits->gpu->sms);
    return true;
}

/* Would blocks of 128 rows leave much of the GPU idle? Where there are fewer than three for every two SMs, smaller
 * ones end sooner. */
static bool leaves_idle(const att_problem *p, const att_limits *limits, att_refusal *refusal) {
    const int64_t blocks = p->batch * p->heads_q * att_ceil_div(p->seq_q, 128);
    ATT_CONDITION(2 * blocks < 3 * (int64_t)limits->gpu->sms, "seq_q",
                  "is for few rows: %lld blocks of 128 rows fill the %d SMs", (long long)blocks,
                  limits->gpu->sms);
    return true;
}

/* Few rows whose keys the blocks of a cluster share; 16 bytes at a time. */
static bool is_for_cluster(const att_cuda_kernel *k, const att_problem *p,
                           att_refusal *refusal) {
    const char *field;
    const char *why = att_cuda_decode_refusal(k, p, &field);
    ATT_CONDITION(!why, field, "%s", why);
    return has_vectors(p, refusal);
}

bool att_cuda_row_serves(const att_cuda_kernel *k, const att_limits *limits,
                         const att_problem *p, att_refusal *refusal) {
    if (!att_cuda_row_runs(k, limits, refusal))
        return false;
    ATT_CONDITION(k->role != ATT_ROLE_COMBINE, "role", "merges what other kernels leave");
    ATT_CONDITION(!k->dtype || k->dtype == p->dtype, "dtype", "is for %s, not %s",
                  att_dtype_name(k->dtype), att_dtype_name(p->dtype));
    ATT_CONDITION(p->d_qk <= k->d_qk, "d_qk", "d_qk=%lld is above %d", (long long)p->d_qk,
                  k->d_qk);
    ATT_CONDITION(p->d_v <= k->d_v, "d_v", "d_v=%lld is above %d", (long long)p->d_v, k->d_v);
    if (!counts_fit(p, refusal))
        return false;
    if (att_cuda_family_of(k) == ATT_CUDA_HOPPER)
        return is_for_hopper(k, limits, p, refusal);
    const bool small = k->role == ATT_ROLE_SMALL;
    if ((k->role == ATT_ROLE_PLAIN || small) && !is_plain(p, refusal))
        return false;
    if (small && !leaves_idle(p, limits, refusal))
        return false;
    /* Few positions: the heads of a group share every key that is read. */
    ATT_CONDITION(k->role != ATT_ROLE_DECODE || p->seq_q <= k->tile_m, "seq_q",
                  "seq_q=%lld is above %d", (long long)p->seq_q, k->tile_m);
    if (att_cuda_family_of(k) == ATT_CUDA_CLUSTER)
        return is_for_cluster(k, p, refusal);
    const char *field = NULL;
    const char *why = k->role == ATT_ROLE_RUNG ? att_cuda_rung_refusal(k, p, &field) : NULL;
    ATT_CONDITION(!why, field, "%s", why);
    ATT_CONDITION(k->role != ATT_ROLE_RUNG || limits->allow_slow, "flags",
                  "is slower than the tensor-core kernels; ATT_ALLOW_SLOW allows it");
    return true;
}
