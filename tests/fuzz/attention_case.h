/* attention_case.h: an attention problem drawn from a fuzzer's bytes, its arrays, and what a
 * run must leave in them.
 *
 *     attention_draw     a problem that is valid by construction
 *     attention_break    ... with a few arbitrary fields
 *     attention_open     arrays for it, filled; false if they would be too large for a harness
 *     attention_spoil    ... with a few wrong arguments or contents
 *     attention_check    after a run: answers, padding, inputs, bytes around the arrays */
#ifndef FUZZ_ATTENTION_CASE_H
#define FUZZ_ATTENTION_CASE_H

#include "attest.h"
#include "tests/fuzz/array_slot.h"
#include "tests/fuzz/random_input.h"

enum {
    SLOT_Q,
    SLOT_K,
    SLOT_V,
    SLOT_O,
    SLOT_LSE,
    SLOT_ALIBI,
    SLOT_BIAS,
    SLOT_SINKS,
    SLOT_CU_Q,
    SLOT_CU_K,
    SLOT_LENS_K,
    SLOT_STARTS_K,
    SLOT_Q_OFFSETS,
    SLOT_K_OFFSETS,
    SLOT_PAGES,
    SLOT_WORKSPACE,
    SLOT_COUNT,
    CASE_BATCH_MOST = 64
};

/* The contents of O and LSE before a run. */
enum { OUTPUT_FILL = 0x7b };

typedef struct attention_case {
    att_problem problem;
    att_args args;
    void *workspace;
    array_slot slots[SLOT_COUNT];
    bool used[SLOT_COUNT];
    uint64_t sums[SLOT_COUNT]; /* of the inputs, before the run */
    int64_t len_q[CASE_BATCH_MOST], len_k[CASE_BATCH_MOST], start_k[CASE_BATCH_MOST];
    int64_t offset[CASE_BATCH_MOST]; /* of the first row's position from the first key's */
    bool finite;                     /* contents are ordinary numbers: answers are compared */
} attention_case;

void attention_draw(att_problem *p, random_input *in);
void attention_break(att_problem *p, random_input *in);

/* `workspace_bytes` from the plan; `element_alignment`: bases are aligned only to their
 * elements, which a CPU accepts. */
bool attention_open(attention_case *c, random_input *in, size_t workspace_bytes,
                    bool element_alignment);

/* What attention_spoil() did. */
typedef enum attention_fault {
    FAULT_NONE,
    FAULT_ARGUMENT, /* the call must be refused */
    FAULT_DATA,     /* wrong lengths or page ids: a CPU refuses them, a GPU need not */
    FAULT_MAYBE     /* both results are right: what was spoiled may not matter to this
                     * problem */
} attention_fault;

attention_fault attention_spoil(attention_case *c, random_input *in);

/* Whether sequences have keys and the cache has no pages: a CPU refuses that, to a GPU they have
 * none. */
bool attention_lacks_pages(const attention_case *c);

/* Compute sums of the inputs, with which attention_check() verifies that they are unchanged.
 * Call it last before the run. */
void attention_seal(attention_case *c);

/* After a refused run: outputs and everything else are untouched. */
void attention_check_untouched(const attention_case *c);

/* After a run: `weight_error` is the relative error that a kernel may make in a weight,
 * `values`: whether answers are compared at all. `name` is used in messages. */
void attention_check(const attention_case *c, double weight_error, bool values,
                     const char *name);

/* Whether a mask hides key j from row i of batch entry b, head h; includes boolean biases. */
bool attention_hides(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t j);

/* Element of key j of batch entry b in K or V. */
int64_t attention_key_at(const attention_case *c, const att_strides *strides, int64_t b,
                         int64_t head, int64_t j);

/* Element of row i of batch entry b in Q, O or LSE. */
int64_t attention_row_at(const attention_case *c, const att_strides *strides, int64_t b,
                         int64_t head, int64_t i);

/* Print the problem to stderr, for the reader of a finding. */
void attention_print(const att_problem *p);

#endif
