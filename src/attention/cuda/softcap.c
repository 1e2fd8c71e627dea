/* softcap.c: tanh as the Hopper rows with softcap compute it. */
#include "attention/cuda/softcap.h"

#include <float.h>
#include <math.h>

static const double log2_e = 1.4426950408889634;

/* tanh(x) / x = sum of even[k] * x^2k for |x| <= reach: the smallest relative error that the degree allows, 6e-8. */
static const double reach = 0.375;
static const double even[ATT_SOFTCAP_DEGREE + 1] = {0.9999999405368067, -0.33331974821968546,
                                                    0.1328450215915833, -0.048272262983604645};

/* Of a product q.k: x = scale * product / softcap, the score softcap * tanh(x) * log2(e). */
bool att_cuda_softcap_of(att_fwd_softcap *out, const att_problem *p) {
    const double cap = p->softcap, x = p->scale / cap;
    *out = (att_fwd_softcap){.reach = (float)(reach / x),
                             .decay = (float)(-2.0 * log2_e * x),
                             .most = (float)(cap * log2_e)};
    double power = p->scale * log2_e; /* score / product at 0 */
    for (int k = 0; k <= ATT_SOFTCAP_DEGREE; k++, power *= x * x) {
        const double coefficient = even[k] * power;
        if (!(fabs(coefficient) <= (double)FLT_MAX) || fabs(coefficient) < (double)FLT_MIN)
            return false;
        out->even[k] = (float)coefficient;
    }
    return true;
}
