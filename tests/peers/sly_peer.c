/* sly_peer.c: the example plug-in, which computes only in calls that it expects to be judged,
 * chosen by SLY_*: see tests/timing/test_peers_clock.sh. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define att_peer_get plain_peer_get
#include "plain_peer.c" /* found by -I */
#undef att_peer_get

#if defined SLY_IMPATIENT
/* Computes if O is not finite, or if 3 us have passed since the last call. */
static int sly_run(void *state, const att_args *args, void *scratch, void *stream, char *why,
                   size_t n) {
    static struct timespec last;
    struct timespec now;
    int code = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double ns =
        1e9 * (double)(now.tv_sec - last.tv_sec) + (double)(now.tv_nsec - last.tv_nsec);
    if (!isfinite(*(const float *)args->o) || ns > 3000.0)
        code = run(state, args, scratch, stream, why, n);
    clock_gettime(CLOCK_MONOTONIC, &last);
    return code;
}
#elif defined SLY_FIFTH
/* Remembers the answer for inputs that it has seen five times. */
enum { KEPT = 8, FLOATS = 1 << 16 };

static uint64_t fold(uint64_t hash, const void *base, size_t bytes) {
    const uint64_t *words = base;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
    return hash;
}

static int sly_run(void *state, const att_args *args, void *scratch, void *stream, char *why,
                   size_t n) {
    static struct {
        uint64_t inputs;
        int sights;
        float o[FLOATS];
    } kept[KEPT];
    static size_t next;
    const att_problem *p = &((ready *)state)->p;
    const size_t bytes = (size_t)(p->batch * p->heads_q * p->seq_q * p->d_v) * sizeof(float);
    const uint64_t inputs = fold(fold(fold(1, args->q, bytes), args->k, bytes), args->v, bytes);
    size_t at = 0;
    while (at < KEPT && kept[at].inputs != inputs)
        at++;
    if (at == KEPT) {
        at = next++ % KEPT;
        kept[at].inputs = inputs;
        kept[at].sights = 0;
    }
    if (kept[at].sights++ >= 5 && bytes <= sizeof kept[at].o) {
        memcpy(args->o, kept[at].o, bytes);
        return 0;
    }
    const int code = run(state, args, scratch, stream, why, n);
    if (bytes <= sizeof kept[at].o)
        memcpy(kept[at].o, args->o, bytes);
    return code;
}
#else
#define sly_run run
#endif

const att_peer *att_peer_get(void) {
    static att_peer sly;
    sly = *plain_peer_get();
    sly.name = "sly";
    sly.run = sly_run;
    return &sly;
}
