/* bad_peer.c: plug-ins with one fault each, chosen by BAD_*: see tests/cli/test_peers.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attest_peer.h"

static int supports(const att_problem *p, const att_peer_device *device, char *why, size_t n) {
    (void)p, (void)device, (void)why, (void)n;
#ifdef BAD_CRASH_SUPPORTS
    abort();
#endif
#ifdef BAD_REFUSES
    snprintf(why, n, "seq_q: none at all");
    return 0;
#else
    return 1;
#endif
}

static int prepare(void **state, const att_problem *p, const att_peer_device *device, char *why,
                   size_t n) {
    (void)device, (void)p;
    *state = NULL;
    (void)why, (void)n;
#ifdef BAD_CRASH_PREPARE
    *(volatile int *)0 = 1;
#endif
#ifdef BAD_LIES
    snprintf(why, n, "no kernel for it after all");
    return 7;
#else
    return 0;
#endif
}

static size_t workspace(const void *state) {
    (void)state;
#ifdef BAD_WORKSPACE
    return (size_t)1 << 62;
#else
    return 0;
#endif
}

static int run(void *state, const att_args *args, void *scratch, void *stream, char *why,
               size_t n) {
    (void)state, (void)args, (void)scratch, (void)stream, (void)why, (void)n;
#ifdef BAD_CRASH_RUN
    *(volatile int *)0 = 1;
#endif
#ifdef BAD_TERMINAL
    memset(why, 'x', n); /* without a terminating zero */
    memcpy(why, "\033[31m\n99 passed, 0 failed\n", 27);
    return 5;
#elif defined BAD_RUN
    snprintf(why, n, "out of tokens");
    return 5;
#else
    return 0; /* computes nothing */
#endif
}

static void destroy(void *state) {
    (void)state;
}

static const att_peer table = {
#ifdef BAD_ABI
    .abi = ATT_PEER_ABI + 6,
#else
    .abi = ATT_PEER_ABI,
#endif
#ifdef BAD_DEVICES
    .devices = 1u << 9,
#elif defined BAD_GPU_ONLY
    .devices = ATT_PEER_CUDA,
#else
    .devices = ATT_PEER_CPU,
#endif
#ifdef BAD_SIZE
    .size = 16,
#else
    .size = sizeof table,
#endif
#ifdef BAD_NAME
    .name = "two words",
#elif defined BAD_NAME_TAKEN
    .name = "attest",
#else
    .name = "bad",
#endif
#ifndef BAD_VERSION
    .version = "1",
#endif
#ifndef BAD_NULL_SUPPORTS
    .supports = supports,
#endif
#ifndef BAD_NULL_PREPARE
    .prepare = prepare,
#endif
#ifndef BAD_NULL_WORKSPACE
    .workspace = workspace,
#endif
#ifndef BAD_NULL_RUN
    .run = run,
#endif
#ifndef BAD_NULL_DESTROY
    .destroy = destroy,
#endif
};

#ifdef BAD_SYMBOL
const att_peer *not_the_symbol(void);
const att_peer *not_the_symbol(void) {
    return &table;
}
#else
const att_peer *att_peer_get(void) {
#ifdef BAD_TABLE
    return NULL;
#else
    return &table;
#endif
}
#endif
