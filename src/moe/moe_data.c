/* moe_data.c: checks the ids given to a run. */
#include "base/error.h"
#include "moe/moe.h"

att_status att_moe_check_data(const void *problem, const void *args) {
    const att_moe_problem *p = problem;
    const att_moe_args *a = args;
    const int64_t k = p->experts_per_token;
    for (int64_t t = 0; p->routing == ATT_MOE_GIVEN && t < p->tokens; t++)
        for (int64_t j = 0; (!a->mask || a->mask[t]) && j < k; j++) {
            const int32_t id = a->given_ids[t * k + j];
            ATT_REQUIRE(id >= -1 && id < p->experts, ATT_E_DATA, "given_ids",
                        "given_ids[%lld][%lld]=%d is not in -1 .. %lld", (long long)t,
                        (long long)j, (int)id, (long long)p->experts - 1);
        }
    return ATT_OK;
}
