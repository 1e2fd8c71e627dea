/* user_rows.h: rows of the registry that a user brings: a built-in row with other constants, for one model of GPU
 * and the problems that it names.
 *
 * The text is lines; docs/tuning.md has the format. Everything is checked when it is read: what the
 * selector gets is a row like the built-in ones, with a scope. */
#ifndef ATT_SELECT_USER_ROWS_H
#define ATT_SELECT_USER_ROWS_H

#include "select/registry.h"

enum { ATT_USER_ROWS_MAX = 128, ATT_USER_TEXT_MAX = 1 << 20 };

/* Both ends belong to it. */
typedef struct att_range {
    int64_t low, high;
} att_range;

/* Properties of a problem that change how a kernel goes about it; a row serves problems that have its own and no other. */
enum {
    ATT_TRAIT_ALIBI = 1u << 0,
    ATT_TRAIT_BIAS = 1u << 1,
    ATT_TRAIT_SINKS = 1u << 2,
    ATT_TRAIT_CU_SEQLENS_Q = 1u << 3,
    ATT_TRAIT_CU_SEQLENS_K = 1u << 4,
    ATT_TRAIT_LENS_K = 1u << 5,
    ATT_TRAIT_PAGED = 1u << 6,
    ATT_TRAIT_WINDOW = 1u << 7,
    ATT_TRAIT_SOFTCAP = 1u << 8,
    ATT_TRAIT_UNALIGNED = 1u << 9, /* rows that do not all start at multiples of 16 bytes */
    ATT_TRAIT_O_TYPE = 1u << 10    /* O of another type than Q */
};

typedef struct att_row_scope {
    char gpu[64]; /* as the driver names it */
    int cc, sms;
    bool stale; /* the row was made for other source text than the library has */
    att_range batch, heads_q, heads_kv, seq_q, seq_k, d_qk, d_v;
    att_causal causal;
    uint32_t traits;
} att_row_scope;

typedef struct att_user_row {
    att_kernel_row row; /* points at what follows */
    att_cuda_kernel kernel;
    att_row_scope scope;
    char id[64], summary[256], defines[768];
} att_user_row;

typedef struct att_user_rows {
    size_t count;
    att_user_row list[];
} att_user_rows;

/* Read rows. `name` is how messages call the text ("FILE"), `field` what the error names ("rows_file").
 *
 * out     att_free() frees *out; NULL on failure
 * Errors  ATT_E_ARG: the text says NAME:LINE: FIELD: why; ATT_E_MEMORY */
att_status att_user_rows_read(att_user_rows **out, const char *text, const char *name,
                              const char *field);

/* The traits of a problem. */
uint32_t att_problem_traits(const att_problem *p);

/* "window", "softcap" ... of one bit; NULL for a bit that is none. */
const char *att_trait_name(uint32_t trait);

/* The ATT_CAUSAL_* that a rows file calls `name`, or -1; and back. */
int att_causal_parse(const char *name);
const char *att_causal_name(att_causal causal);

#endif
