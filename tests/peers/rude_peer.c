/* rude_peer.c: the example plug-in, which computes correctly and then does something to the
 * process, chosen by RUDE_*: see tests/cli/test_peers.sh. */
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define att_peer_get plain_peer_get
#include "plain_peer.c" /* found by -I */
#undef att_peer_get

static void leave_at_once(void) {
    _exit(0);
}

static void *leave_from_a_thread(void *argument) {
    usleep(20000);
    leave_at_once();
    return argument;
}

/* Set the MXCSR bits that flush subnormal numbers to zero, or the nearest equivalent
 * elsewhere. */
static void flush_subnormals(void) {
#if defined(__x86_64__)
    unsigned rules;
    __asm__ volatile("stmxcsr %0" : "=m"(rules));
    rules |= 0x8040u;
    __asm__ volatile("ldmxcsr %0" : : "m"(rules));
#else
    fesetround(FE_TOWARDZERO);
#endif
}

static int rude_prepare(void **state, const att_problem *p, const att_peer_device *device,
                        char *why, size_t n) {
#if defined RUDE_ATEXIT
    atexit(leave_at_once);
#elif defined RUDE_IGNORE
    signal(SIGSEGV, SIG_IGN);
#elif defined RUDE_ROUND_PREPARE
    fesetround(FE_UPWARD);
#elif defined RUDE_ENDLESS_PREPARE
    for (;;)
        pause();
#elif defined RUDE_THREAD
    pthread_t thread;
    pthread_create(&thread, NULL, leave_from_a_thread, NULL);
    pthread_detach(thread);
#endif
    return prepare(state, p, device, why, n);
}

static int rude_run(void *state, const att_args *args, void *scratch, void *stream, char *why,
                    size_t n) {
    const int code = run(state, args, scratch, stream, why, n);
#if defined RUDE_EXIT
    exit(0);
#elif defined RUDE_NOW
    leave_at_once();
#elif defined RUDE_ATEXIT
    *(float *)args->o = 7.0f; /* so that there is a failure to hide */
#elif defined RUDE_FORK
    static int split;
    if (!split++ && fork() != 0)
        leave_at_once();
#elif defined RUDE_IGNORE
    *(volatile int *)0 = 1;
#elif defined RUDE_ENDLESS
    for (;;)
        pause();
#elif defined RUDE_ROUND
    fesetround(FE_UPWARD);
#elif defined RUDE_FLUSH
    flush_subnormals();
#endif
    return code;
}

#if defined RUDE_LOAD
__attribute__((constructor)) static void leave_when_loaded(void) {
    leave_at_once();
}
#elif defined RUDE_FLUSH_LOAD
__attribute__((constructor)) static void flush_when_loaded(void) {
    flush_subnormals();
}
#endif

const att_peer *att_peer_get(void) {
    static att_peer rude;
    rude = *plain_peer_get();
    rude.name = "rude";
    rude.prepare = rude_prepare;
    rude.run = rude_run;
    return &rude;
}
