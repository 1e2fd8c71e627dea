/* caller.cpp: a C++11 program that asks an installed attest for an answer known by hand. */
#include <attest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

int fail(const char *call) {
    std::fprintf(stderr, "%s: %s\n", call, att_last_error()->text);
    return 1;
}

} // namespace

int main() {
    // A zero query scores every key equally, so the answer is the mean of V, and LSE is log(4).
    const std::vector<float> q(8, 0.0f), k(4 * 8, 1.0f), v = {1, 2, 3, 6};
    float o = -1.0f, lse = -1.0f;

    att_context *context = nullptr;
    if (att_context_create(&context, nullptr) != ATT_OK)
        return fail("att_context_create");
    att_problem problem;
    att_problem_init(&problem, 1, 1, 1, 1, 4, 8, 1, ATT_F32);
    problem.features = ATT_LSE;
    att_plan *plan = nullptr;
    if (att_plan_create(&plan, context, &problem) != ATT_OK)
        return fail("att_plan_create");
    std::vector<char> storage(att_plan_workspace(plan) + ATT_WORKSPACE_ALIGN);
    char *workspace = storage.data();
    while (reinterpret_cast<std::uintptr_t>(workspace) % ATT_WORKSPACE_ALIGN != 0)
        workspace++;
    att_args args = att_args();
    args.size = sizeof args;
    args.q = q.data();
    args.k = k.data();
    args.v = v.data();
    args.o = &o;
    args.lse = &lse;
    if (att_plan_run(plan, &args, workspace, nullptr) != ATT_OK)
        return fail("att_plan_run");
    std::printf("attest %s %s: o = %g, lse = %g\n", att_version(), att_plan_kernel(plan), o,
                lse);
    att_plan_destroy(plan);
    att_context_destroy(context);
    return std::fabs(o - 3.0f) < 1e-5f && std::fabs(lse - std::log(4.0f)) < 1e-5f ? 0 : 1;
}
