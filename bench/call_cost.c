/* call_cost.c: the time of one att_plan_run() of a small problem on the CPU, in nanoseconds;
 * for attest.bench.
 *
 *   call_cost HEADS ROWS KEYS D     prints the lowest mean of 200 blocks of 200 calls */
#include "attest.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static float *ones(int64_t count) {
    float *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; x && i < count; i++)
        x[i] = 1.0f;
    return x;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: call_cost HEADS ROWS KEYS D\n");
        return 2;
    }
    const int64_t heads = strtol(argv[1], NULL, 10), rows = strtol(argv[2], NULL, 10),
                  keys = strtol(argv[3], NULL, 10), d = strtol(argv[4], NULL, 10);
    enum { BLOCKS = 200, CALLS = 200 }; /* short blocks: some run without interruption */
    att_context_options options = {.size = sizeof options, .device = ATT_DEVICE_CPU};
    att_context *context = NULL;
    att_plan *plan = NULL;
    att_problem problem;
    att_problem_init(&problem, 1, heads, heads, rows, keys, d, d, ATT_F32);
    att_problem_layout_bhsd(&problem);
    if (att_context_create(&context, &options) != ATT_OK ||
        att_plan_create(&plan, context, &problem) != ATT_OK) {
        fprintf(stderr, "call_cost: %s\n", att_last_error()->text);
        return 3;
    }
    const size_t bytes = att_plan_workspace(plan) / ATT_WORKSPACE_ALIGN * ATT_WORKSPACE_ALIGN +
                         ATT_WORKSPACE_ALIGN;
    void *workspace = aligned_alloc(ATT_WORKSPACE_ALIGN, bytes);
    att_launch launch;
    float *q = ones(heads * rows * d), *k = ones(heads * keys * d), *v = ones(heads * keys * d),
          *o = ones(heads * rows * d);
    att_args args = {.size = sizeof args, .q = q, .k = k, .v = v, .o = o, .launch = &launch};
    double least = 1e30;
    for (int block = 0; block < BLOCKS; block++) {
        const double start = now_ns();
        for (int i = 0; i < CALLS; i++)
            if (att_plan_run(plan, &args, workspace, NULL) != ATT_OK) {
                fprintf(stderr, "call_cost: %s\n", att_last_error()->text);
                return 3;
            }
        const double mean = (now_ns() - start) / CALLS;
        least = mean < least ? mean : least;
    }
    printf("%.0f\n", least);
    free(q);
    free(k);
    free(v);
    free(o);
    free(workspace);
    att_plan_destroy(plan);
    att_context_destroy(context);
    return 0;
}
