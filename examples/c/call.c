/* call.c: attention from plain C, in four calls, with every error shown.
 *
 *     make && ./call        the answer for 8 query heads over 2 K/V heads
 *     ./call 7              a mistake, and how attest reports it
 *
 * The file is valid C11 and C++17: descriptors are zeroed and filled field by field. */
#include <attest.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS_KV = 2, MOST_HEADS = 64, SEQ = 128, D = 32 };

/* (batch, seq, heads, d), the layout that att_problem_init() sets. */
static float q[SEQ * MOST_HEADS * D], k[SEQ * HEADS_KV * D], v[SEQ * HEADS_KV * D];
static float o[SEQ * MOST_HEADS * D];

/* att_last_error() says which field is at fault, and why; it is per thread. */
static int fail(const char *call) {
    const att_error *error = att_last_error();
    fprintf(stderr, "%s: %s\n  field  %s\n  text   %s\n", call, att_status_name(error->status),
            error->field[0] ? error->field : "-", error->text);
    return 1;
}

static int attend(att_context *context, int heads) {
    att_problem problem;
    att_problem_init(&problem, 1, heads, HEADS_KV, SEQ, SEQ, D, D, ATT_F32);
    problem.causal = ATT_CAUSAL_TOP_LEFT; /* row i sees keys 0 .. i */

    att_plan *plan; /* made once per problem; for any number of runs and threads */
    if (att_plan_create(&plan, context, &problem) != ATT_OK)
        return fail("att_plan_create");

    att_args args; /* the pointers of one run; those that the problem does not have stay NULL */
    memset(&args, 0, sizeof args);
    args.size = sizeof args;
    args.q = q;
    args.k = k;
    args.v = v;
    args.o = o;
    args.workspace_size = att_plan_workspace(plan);
    void *workspace = aligned_alloc(ATT_WORKSPACE_ALIGN, args.workspace_size);

    int failed = 0;
    if (att_plan_run(plan, &args, workspace, NULL) != ATT_OK)
        failed = fail("att_plan_run");
    else
        printf("attest %s, kernel %s\n", att_version(), att_plan_kernel(plan));
    free(workspace);
    att_plan_destroy(plan);
    return failed;
}

/* A zero query weights every key equally, so a row is the mean of the values it sees. The
 * values of row j are all j: row i must be i/2. */
static int check(int heads) {
    for (int i = 0; i < SEQ; i++)
        for (int c = 0; c < heads * D; c++)
            if (fabsf(o[i * heads * D + c] - 0.5f * (float)i) > 1e-4f) {
                fprintf(stderr, "o[%d][%d] is %g, not %g\n", i, c, (double)o[i * heads * D + c],
                        0.5 * i);
                return 1;
            }
    printf("row %d is the mean of values 0 to %d: %g\n", SEQ - 1, SEQ - 1,
           (double)o[(SEQ - 1) * heads * D]);
    return 0;
}

int main(int argc, char **argv) {
    const int heads = argc > 1 ? atoi(argv[1]) : 8;
    if (heads > MOST_HEADS) {
        fprintf(stderr, "usage: call [HEADS], at most %d\n", MOST_HEADS);
        return 2;
    }
    for (int j = 0; j < SEQ; j++)
        for (int c = 0; c < HEADS_KV * D; c++) {
            k[j * HEADS_KV * D + c] = (float)(c % 5);
            v[j * HEADS_KV * D + c] = (float)j;
        }

    att_context_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.device = ATT_DEVICE_CPU; /* the arrays above are host memory */
    att_context *context;
    if (att_context_create(&context, &options) != ATT_OK)
        return fail("att_context_create");

    const int failed = attend(context, heads) || check(heads);
    att_context_destroy(context);
    return failed;
}
