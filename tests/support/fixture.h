/* fixture.h: an attention problem with every buffer it needs, guarded, seeded and poisoned. */
#ifndef TESTS_SUPPORT_FIXTURE_H
#define TESTS_SUPPORT_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "attest.h"
#include "tests/support/guard.h"

/* Order of the buffers of a fixture; the first four are the mandatory ones. */
enum {
    BUF_Q,
    BUF_K,
    BUF_V,
    BUF_O,
    BUF_LSE,
    BUF_ALIBI,
    BUF_BIAS,
    BUF_SINKS,
    BUF_CU_Q,
    BUF_CU_K,
    BUF_LENS_K,
    BUF_STARTS_K,
    BUF_Q_OFFSETS,
    BUF_K_OFFSETS,
    BUF_PAGES,
    BUF_COUNT
};

typedef struct fixture {
    att_problem problem;
    att_args args;     /* pointers of the buffers below, size and launch set */
    att_launch launch; /* filled by the run */
    guarded buf[BUF_COUNT];
    guarded workspace;
} fixture;

/* Allocate and fill what `problem` needs: Q, K, V, bias with seeded values in [-1, 1), slopes
 * and sinks likewise, packed lengths that split total_q and total_k evenly, lens_k = seq_k,
 * starts_k alternating between 0 and seq_k / 3, q_offsets between 2 and 0, k_offsets all 1, pages in reverse order, outputs poisoned. The
 * problem need not be valid beyond sizes that can be allocated. */
void fixture_open(fixture *f, const att_problem *problem, uint64_t seed);
void fixture_close(fixture *f);

/* Fill outputs with a byte pattern that no run leaves, and check for it. */
void fixture_poison(fixture *f);
bool fixture_poisoned(const fixture *f);

/* Fail the running test if a guard band of any buffer has changed. */
void fixture_assert_intact(const fixture *f);

/* Plan the fixture's problem on `ctx`, run it with a workspace of exactly the requested size,
 * check the guard bands; returns the status of the step that failed. */
att_status fixture_run(fixture *f, att_context *ctx);

/* fixture_run() that must succeed. */
void fixture_run_ok(fixture *f, att_context *ctx);

/* One element: sequence b, head h, row of the sequence, column. Supports packed and paged
 * layouts. */
float fixture_get(const fixture *f, int tensor, int64_t b, int64_t h, int64_t row, int64_t col);
void fixture_set(fixture *f, int tensor, int64_t b, int64_t h, int64_t row, int64_t col,
                 float value);
float fixture_lse(const fixture *f, int64_t b, int64_t h, int64_t row);
void fixture_set_bias(fixture *f, int64_t b, int64_t h, int64_t row, int64_t key, float value);

/* Set every element of one tensor (BUF_Q, BUF_K or BUF_V) to `value`, or every row of one (b,
 * h). */
void fixture_fill(fixture *f, int tensor, float value);
void fixture_fill_row(fixture *f, int tensor, int64_t b, int64_t h, int64_t row, float value);

/* A copy of the bytes of a buffer, for free(), and a comparison with one. */
void *fixture_copy(const fixture *f, int buffer);
bool fixture_same(const fixture *f, int buffer, const void *copy);

#endif
