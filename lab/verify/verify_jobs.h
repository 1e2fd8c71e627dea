/* verify_jobs.h: verifies several problems at a time.
 *
 * On a GPU most of a small problem's time is spent in the driver: calls wait for each other
 * while processors and GPU are idle. Several problems at once, each with its own stream and
 * tensors, keep both busy. No check depends on running alone. Nothing is timed meanwhile. */
#ifndef LAB_VERIFY_JOBS_H
#define LAB_VERIFY_JOBS_H

#include "lab/verify/verify.h"

/* The number of problems at once that suits the context's device: on a GPU up to 8, depending
 * on the processors that judge them. On a CPU one, so that its kernel has all the threads that
 * it is to be verified with; and one if the driver is not NVIDIA's (ATTEST_LIBCUDA). */
int lab_verify_at_once(const att_context *ctx);

/* Call work(context, i) for every problem, at most `at_once` at a time. Those that need more
 * than a GiB come first, one by one. */
void lab_verify_each(const lab_spec *const *specs, size_t count, int at_once,
                     void (*work)(void *context, size_t i), void *context);

#endif
