/* attest_peer.h: another attention, handed to attest's harness as a plug-in.
 *
 * A plug-in is a shared library with one function, att_peer_get(), that returns a table of
 * functions:
 *
 *     static const att_peer table = {
 *         .abi = ATT_PEER_ABI, .size = sizeof table, .name = "mine", ...};
 *     ATT_PEER_EXPORT const att_peer *att_peer_get(void) { return &table; }
 *
 * It needs this header and attest.h, and is not linked with attest:
 *
 *     cc -shared -fPIC -o mine.so mine.c
 *     attest verify b2h8s512d64 --peer ./mine.so
 *     attest bench  b2h8s512d64 --peer ./mine.so
 *
 * verify compares its answers with the float64 oracle, and bench times it in turn with attest:
 * by the same harness, on the same inputs, with the same guards. examples/peer is a complete
 * one in plain C, docs/peers.md says what is checked.
 *
 * Messages go to `why`, a buffer of `n` bytes, as snprintf() writes them; they are optional.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTEST_PEER_H
#define ATTEST_PEER_H

#include "attest.h"

#if defined(__GNUC__)
#define ATT_PEER_EXPORT __attribute__((visibility("default")))
#else
#define ATT_PEER_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Changes only if old plug-ins could no longer be called. New fields are added at the end of
 * the table. */
#define ATT_PEER_ABI 1

/* Where a peer computes. */
enum { ATT_PEER_CPU = 1u << 0, ATT_PEER_CUDA = 1u << 1 };

/* The device of this session. */
typedef struct att_peer_device {
    size_t size; /* sizeof(att_peer_device) of the harness; new fields are added at the end */
    att_device device; /* ATT_DEVICE_CPU or ATT_DEVICE_CUDA */
    int32_t index; /* CUDA: which GPU; a context of it is current in every call but destroy() */
    int32_t threads; /* CPU: how many threads attest itself uses */
} att_peer_device;

/* Compute the problem. The first of two promises that the harness checks: a run does not wait
 * for the stream, allocate or free, so that it can be captured into a CUDA graph; on the CPU it
 * is complete on return. 0: done. Anything else fails the problem, with `why`. */
typedef int (*att_peer_run)(void *state, const att_args *args, void *workspace, void *stream,
                            char *why, size_t n);

typedef struct att_peer {
    uint32_t abi;     /* ATT_PEER_ABI */
    uint32_t devices; /* ATT_PEER_CPU, ATT_PEER_CUDA or both */
    size_t size;      /* sizeof(att_peer) */

    /* As shown in tables and result files. The name has letters, digits, '-', '_' and '.', at
     * most 40. The version is that of the wrapped library, with every option that affects its
     * speed: a comparison is fair only if the rival runs at its best. */
    const char *name, *version;

    /* 1 if run() computes this problem exactly as attest.h defines it; otherwise 0, and why.
     * The second promise: a supported problem is then prepared and run, and its answer must be
     * right. */
    int (*supports)(const att_problem *problem, const att_peer_device *device, char *why,
                    size_t n);

    /* Get ready: allocate, compile, choose. *state is passed to the other functions. 0:
     * ready. */
    int (*prepare)(void **state, const att_problem *problem, const att_peer_device *device,
                   char *why, size_t n);

    /* Bytes of workspace for a run, in the device's memory, aligned to ATT_WORKSPACE_ALIGN;
     * often 0. Its contents are not kept from run to run. */
    size_t (*workspace)(const void *state);

    att_peer_run run;
    void (*destroy)(void *state);

    /* The call that users of the wrapped library would make, without copies and conversions
     * that only the plug-in adds. NULL if run() does nothing else. It is timed in turn with
     * run(), and a slower run() fails as a rival with a handicap. Its answers must be as right
     * as those of run(); it returns anything but 0 if there is no such call for this
     * problem. */
    att_peer_run direct;

    /* CUDA: the copies and fills (cudaMemcpyAsync, cudaMemsetAsync) that one run needs. More of
     * them in the captured run are a handicap too. */
    uint32_t copies;
} att_peer;

/* The one symbol of a plug-in. The table lives as long as the library is loaded. */
ATT_PEER_EXPORT const att_peer *att_peer_get(void);

#ifdef __cplusplus
}
#endif

#endif /* ATTEST_PEER_H */
