/* verify_jobs.c: verifies large problems one by one, the others in parallel. */
#include "lab/verify/verify_jobs.h"

#include <stdlib.h>

#include "lab/base/jobs.h"
#include "lab/base/workers.h"

enum { AT_ONCE_MOST = 8 };

static const double large_bytes = 0x1p30;

int lab_verify_at_once(const att_context *ctx) {
    att_context_info info = {.size = sizeof info};
    const char *driver = getenv("ATTEST_LIBCUDA");
    if (att_context_query(ctx, &info) != ATT_OK || info.device != ATT_DEVICE_CUDA ||
        (driver && *driver))
        return 1;
    const int half = lab_workers_count() / 2;
    return half < 1 ? 1 : half > AT_ONCE_MOST ? AT_ONCE_MOST : half;
}

typedef struct rest {
    const lab_spec *const *specs;
    void (*work)(void *context, size_t i);
    void *context;
} rest;

static void do_small(void *context, size_t i) {
    const rest *r = context;
    if (lab_spec_bytes(r->specs[i]) <= large_bytes)
        r->work(r->context, i);
}

void lab_verify_each(const lab_spec *const *specs, size_t count, int at_once,
                     void (*work)(void *context, size_t i), void *context) {
    rest r = {specs, work, context};
    if (at_once <= 1) {
        for (size_t i = 0; i < count; i++)
            work(context, i);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (lab_spec_bytes(specs[i]) > large_bytes)
            work(context, i);
    lab_jobs_run(count, at_once, do_small, &r);
}
