/* softcap.c: tanh as the Hopper rows with softcap compute it. */
#include "attention/cuda/softcap.h"

#include <float.h>
#include <math.h>

static const double log2_e = 1.4426950408889634;

/* tanh(x) / x = sum of even[k] * x^2k for |x| <= reach, with the smallest relative error for
 * the degree. */
typedef struct polynomial {
    double reach;
    double even[ATT_SOFTCAP_FAR + 1];
} polynomial;
static const polynomial near = {0.18, /* error 6e-8 */
                                {0.9999999438165222, -0.3333020773362715, 0.13074920078986568}};
static const polynomial far = {0.55, /* error 3e-8 */
                               {0.9999999676373165, -0.3333279502358125, 0.13318876914508426,
                                -0.05258931982782804, 0.016315443723785204}};

/* The coefficients that turn a product into a score, softcap * tanh(x) * log2(e), with x =
 * scale * product / softcap. */
static bool fill(float *out, int degree, const polynomial *of, double x, double slope) {
    for (int k = 0; k <= degree; k++, slope *= x * x) {
        const double coefficient = of->even[k] * slope;
        if (!(fabs(coefficient) <= (double)FLT_MAX) || fabs(coefficient) < (double)FLT_MIN)
            return false;
        out[k] = (float)coefficient;
    }
    return true;
}

bool att_cuda_softcap_of(att_fwd_softcap *out, const att_problem *p) {
    const double cap = p->softcap, x = p->scale / cap, slope = p->scale * log2_e;
    *out = (att_fwd_softcap){.near_reach = (float)(near.reach / x),
                             .far_reach = (float)(far.reach / x),
                             .decay = (float)(-2.0 * log2_e * x),
                             .most = (float)(cap * log2_e)};
    return fill(out->near, ATT_SOFTCAP_NEAR, &near, x, slope) &&
           fill(out->far, ATT_SOFTCAP_FAR, &far, x, slope);
}
