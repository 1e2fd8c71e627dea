/* verify_jobs.h: problems verified several at a time.
 *
 * On a GPU most of a small problem's time is the driver's: calls that wait for each other, while processors and GPU stand by. Several
 * problems at once, each with a stream and tensors of its own, fill both. No check depends on being alone. Nothing is timed meanwhile. */
#ifndef LAB_VERIFY_JOBS_H
#define LAB_VERIFY_JOBS_H

#include "lab/verify/verify.h"

/* How many problems at once suit the context's device: on a GPU up to 8, by the processors that judge them. On a CPU one, whose kernel
 * then has all the threads that it is to be verified with; and one where the driver is not NVIDIA's (ATTEST_LIBCUDA). */
int lab_verify_at_once(const att_context *ctx);

/* Call work(context, i) for every problem, up to `at_once` at a time. Those that take more than a GiB come first, one by one. */
void lab_verify_each(const lab_spec *const *specs, size_t count, int at_once,
                     void (*work)(void *context, size_t i), void *context);

#endif
