/* handicap_peer.c: the example plug-in with needless copies, and its own direct call; with
 * DIRECT_WRONG the direct call does nothing, with DIRECT_NONE it supports no problem. */
#include <string.h>

#define att_peer_get plain_peer_get
#include "plain_peer.c" /* found by -I */
#undef att_peer_get

enum { COPIES = 40 };

static int slow_run(void *state, const att_args *args, void *scratch, void *stream, char *why,
                    size_t n) {
    const att_problem *p = &((ready *)state)->p;
    const size_t bytes = (size_t)(p->seq_k * p->k.row) * sizeof(float);
    char *copy = malloc(bytes);
    for (int i = 0; copy && i < COPIES; i++) {
        memcpy(copy, args->k, bytes);
        memcpy(copy, args->v, bytes);
        __asm__ volatile(""
                         :
                         : "r"(copy)
                         : "memory"); /* the compiler must not optimise it away */
    }
    free(copy);
    return run(state, args, scratch, stream, why, n);
}

static int direct(void *state, const att_args *args, void *scratch, void *stream, char *why,
                  size_t n) {
#if defined DIRECT_NONE
    (void)state, (void)args, (void)scratch, (void)stream, (void)why, (void)n;
    return 1;
#elif defined DIRECT_WRONG
    (void)state, (void)args, (void)scratch, (void)stream, (void)why, (void)n;
    return 0;
#else
    return run(state, args, scratch, stream, why, n);
#endif
}

const att_peer *att_peer_get(void) {
    static att_peer handicapped;
    handicapped = *plain_peer_get();
    handicapped.name = "handicapped";
    handicapped.run = slow_run;
    handicapped.direct = direct;
    return &handicapped;
}
