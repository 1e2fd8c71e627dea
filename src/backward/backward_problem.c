/* backward_problem.c: the checks of a problem's gradients, after those of its forward pass. */
#include "backward/backward.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/tensor_shape.h"

static att_status check_values(const att_problem *p) {
    ATT_REQUIRE(!(p->features & ATT_PAGED), ATT_E_ARG, "features",
                "features has ATT_PAGED: gradients of K and V in pages are not computed");
    ATT_REQUIRE(p->features & ATT_LSE, ATT_E_ARG, "features",
                "features lacks ATT_LSE: gradients are computed from the forward pass's lse");
    ATT_REQUIRE(p->dtype_grad == p->dtype || p->dtype_grad == ATT_F32, ATT_E_ARG, "dtype_grad",
                "dtype_grad=%d is neither dtype=%d nor f32", (int)p->dtype_grad, (int)p->dtype);
    ATT_REQUIRE((p->gradients & ~(uint32_t)ATT_GRADIENTS_ALL) == 0, ATT_E_ARG, "gradients",
                "gradients=0x%x has unknown bits", p->gradients);
    const struct {
        uint32_t gradient, feature;
        const char *text;
    } pairs[] = {
        {ATT_D_BIAS, ATT_BIAS, "gradients has ATT_D_BIAS, features has no ATT_BIAS"},
        {ATT_D_SINKS, ATT_SINKS, "gradients has ATT_D_SINKS, features has no ATT_SINKS"},
        {ATT_D_ALIBI, ATT_ALIBI, "gradients has ATT_D_ALIBI, features has no ATT_ALIBI"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        ATT_REQUIRE(!(p->gradients & pairs[i].gradient) || p->features & pairs[i].feature,
                    ATT_E_ARG, "gradients", "%s", pairs[i].text);
    ATT_REQUIRE(!(p->gradients & ATT_D_BIAS) || p->bias_dtype != ATT_BOOL8, ATT_E_ARG,
                "gradients", "gradients has ATT_D_BIAS, but the bias is a boolean mask");
    const bool slopes_overlap =
        p->batch > 1 && p->alibi_stride_batch > 0 && p->alibi_stride_batch < p->heads_q;
    ATT_REQUIRE(!(p->gradients & ATT_D_ALIBI) || !slopes_overlap, ATT_E_ALIAS,
                "alibi_stride_batch",
                "alibi_stride_batch=%lld is below heads_q=%lld: d_alibi "
                "overlaps itself",
                (long long)p->alibi_stride_batch, (long long)p->heads_q);
    return ATT_OK;
}

static att_status measure_output(const att_shape *shape, int64_t *extent) {
    ATT_TRY(att_shape_measure(shape, extent));
    ATT_TRY(att_shape_contiguous(shape));
    return *extent ? att_shape_disjoint(shape) : ATT_OK;
}

static att_status measure_tensors(const att_problem *p, att_backward_extents *e) {
    const size_t out = att_dtype_size(p->dtype_grad);
    const bool packed_q = p->features & ATT_CU_SEQLENS_Q;
    const bool packed_k = p->features & ATT_CU_SEQLENS_K;
    const int64_t batch_q = packed_q ? 1 : p->batch, rows_q = packed_q ? p->total_q : p->seq_q;
    const int64_t batch_k = packed_k ? 1 : p->batch, rows_k = packed_k ? p->total_k : p->seq_k;
    const att_shape d_o = att_shape_of("grad_o", batch_q, p->heads_q, rows_q, p->d_v,
                                       &p->grad_o, att_dtype_size(p->dtype_o));
    const att_shape d_q =
        att_shape_of("grad_q", batch_q, p->heads_q, rows_q, p->d_qk, &p->grad_q, out);
    const att_shape d_k =
        att_shape_of("grad_k", batch_k, p->heads_kv, rows_k, p->d_qk, &p->grad_k, out);
    const att_shape d_v =
        att_shape_of("grad_v", batch_k, p->heads_kv, rows_k, p->d_v, &p->grad_v, out);
    ATT_TRY(att_shape_measure(&d_o, &e->d_o));
    ATT_TRY(att_shape_contiguous(&d_o));
    ATT_TRY(measure_output(&d_q, &e->d_q));
    ATT_TRY(measure_output(&d_k, &e->d_k));
    return measure_output(&d_v, &e->d_v);
}

/* The gradient of a bias has the shape of the bias, without its broadcast dimensions. */
static att_status measure_bias(const att_problem *p, int64_t *extent) {
    const size_t bytes = att_dtype_size(att_backward_bias_dtype(p));
    const att_shape bias = att_shape_of("bias", p->batch, p->heads_q, p->seq_q, p->seq_k,
                                        &p->bias, att_dtype_size(p->bias_dtype));
    att_shape d_bias = att_shape_of("grad_bias", p->batch, p->heads_q, p->seq_q, p->seq_k,
                                    &p->grad_bias, bytes);
    static const char *const names[] = {"batch", "head", "row", "col"};
    ATT_TRY(att_shape_measure(&d_bias, extent));
    for (int i = 0; i < 4; i++) {
        const bool broadcast = bias.stride[i] == 0;
        ATT_REQUIRE(d_bias.size[i] <= 1 || (d_bias.stride[i] == 0) == broadcast, ATT_E_ARG,
                    "grad_bias",
                    "grad_bias.%s=%lld, but bias.%s=%lld: a gradient is summed where its "
                    "bias is broadcast, and only there",
                    names[i], (long long)d_bias.stride[i], names[i], (long long)bias.stride[i]);
        if (broadcast)
            d_bias.size[i] = att_min(d_bias.size[i], 1);
    }
    return *extent ? att_shape_disjoint(&d_bias) : ATT_OK;
}

att_status att_backward_problem_check(const void *problem, void *extents) {
    const att_problem *p = problem;
    att_backward_extents *e = extents;
    *e = (att_backward_extents){0};
    ATT_TRY(att_problem_check(p, &e->forward));
    ATT_TRY(check_values(p));
    ATT_TRY(measure_tensors(p, e));
    return p->gradients & ATT_D_BIAS ? measure_bias(p, &e->d_bias) : ATT_OK;
}
