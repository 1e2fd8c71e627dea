/* engines.h: every instruction set of this machine, one context each, for tests that visit
 * all. */
#ifndef TESTS_SUPPORT_ENGINES_H
#define TESTS_SUPPORT_ENGINES_H

#include "attest.h"

enum { ENGINES_MAX = 5, ENGINES_THREADS = 3 };

typedef struct engines {
    int count;
    att_isa isa[ENGINES_MAX];
    att_context *ctx[ENGINES_MAX];
} engines;

/* Open a CPU context of `threads` threads for every instruction set, lowest first. */
void engines_open(engines *e, int32_t threads);
void engines_close(engines *e);

/* The same as set-up and tear-down of a group: every test finds the engines, with
 * ENGINES_THREADS threads, in *state. */
int engines_setup(void **state);
int engines_teardown(void **state);

/* A CPU context; isa ATT_ISA_AUTO and threads 0 mean the defaults. Fails the test if
 * refused. */
att_context *context_open(att_isa isa, int32_t threads);

/* The highest instruction set of this machine; and all of them, lowest first: returns their
 * number. */
att_isa machine_isa(void);
int machine_isas(att_isa list[ENGINES_MAX]);

const char *isa_name(att_isa isa);

#endif
