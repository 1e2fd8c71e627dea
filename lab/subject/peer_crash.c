/* peer_crash.c: signal handlers that know which call is being made. */
#include "lab/subject/peer_crash.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "lab/base/atomic_file.h"

static const struct {
    int number;
    const char *name;
} watched[] = {{SIGSEGV, "SIGSEGV"},
               {SIGBUS, "SIGBUS"},
               {SIGFPE, "SIGFPE"},
               {SIGILL, "SIGILL"},
               {SIGABRT, "SIGABRT"}};
enum { WATCHED = sizeof watched / sizeof watched[0] };

static struct sigaction before[WATCHED];
static atomic_bool watching;
static const char *_Atomic current_who, *_Atomic current_call;

static void put(const char *text) {
    const ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

/* Nothing can go on after it: say whose it was, leave no temporary file, and end. */
static void crashed(int number) {
    const char *who = atomic_load(&current_who), *call = atomic_load(&current_call);
    size_t i = 0;
    while (i + 1 < WATCHED && watched[i].number != number)
        i++;
    if (!call) { /* not in a plug-in: as if this handler were not there */
        sigaction(number, &before[i], NULL);
        raise(number);
        return;
    }
    put("attest: the peer ");
    put(who);
    put(" crashed in ");
    put(call);
    put(": ");
    put(watched[i].name);
    put("\n");
    lab_atomic_remove_all();
    _exit(1);
}

void lab_peer_watch(void) {
    if (atomic_exchange(&watching, true))
        return;
    for (size_t i = 0; i < WATCHED; i++) {
        struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_NODEFER};
        sigemptyset(&action.sa_mask);
        sigaction(watched[i].number, &action, &before[i]);
    }
}

void lab_peer_enter(const char *who, const char *call) {
    atomic_store_explicit(&current_who, who, memory_order_relaxed);
    atomic_store_explicit(&current_call, call, memory_order_relaxed);
}

void lab_peer_leave(void) {
    atomic_store_explicit(&current_call, NULL, memory_order_relaxed);
}
