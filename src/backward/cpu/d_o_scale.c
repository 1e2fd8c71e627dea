/* d_o_scale.c: a power of two that scales a tiny d_o out of the subnormal range. */
#include "backward/cpu/d_o_scale.h"

/* From here on a product with a significant weight, and a sum of such products, is far from
 * subnormal. */
static const float ENOUGH = 0x1p-40f;

static float most_of_pair(const att_gradient_job *job, int64_t pair) {
    const att_cpu_sequence s = att_gradient_pair(job, pair);
    const int64_t rows = s.len_q * job->cut->tiling.group;
    const att_block_fact *facts = job->block_facts + att_gradient_first_block(job, &s);
    float most = 0.0f;
    for (int64_t block = 0; block * job->cut->block_rows < rows; block++)
        most = fmaxf(most, facts[block].d_o_most);
    return most;
}

float att_d_o_scale(const att_gradient_job *job) {
    float most = 0.0f;
    for (int64_t pair = 0; pair < job->cut->pairs && most < ENOUGH; pair++)
        most = fmaxf(most, most_of_pair(job, pair));
    if (most >= ENOUGH || most == 0.0f)
        return 1.0f;
    int exponent;
    frexpf(most, &exponent);
    return ldexpf(1.0f, exponent < -126 ? 126 : -exponent);
}
