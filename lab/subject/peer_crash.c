/* peer_crash.c: signal handlers that know which call is in progress. */
#include "lab/subject/peer_crash.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
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
static lab_peer_note own_note, *note = &own_note;
static double limit_of_all;

static void put(const char *text) {
    const ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

static size_t place_of(int number) {
    size_t i = 0;
    while (i + 1 < WATCHED && watched[i].number != number)
        i++;
    return i;
}

const char *lab_peer_signal_name(int number) {
    const size_t i = place_of(number);
    return number == SIGKILL             ? "SIGKILL"
           : watched[i].number == number ? watched[i].name
                                         : "a signal";
}

/* The program cannot continue: say which plug-in crashed, leave no temporary file, and exit. */
static void crashed(int number) {
    const char *who = atomic_load(&current_who), *call = atomic_load(&current_call);
    if (!call) { /* not in a plug-in: default behaviour */
        sigaction(number, &before[place_of(number)], NULL);
        raise(number);
        return;
    }
    put("attest: the peer ");
    put(who);
    put(" crashed in ");
    put(call);
    put(": ");
    put(lab_peer_signal_name(number));
    put("\n");
    atomic_store(&note->said, true);
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

void lab_peer_take_notes(lab_peer_note *shared) {
    note = shared;
}

void lab_peer_limit(double seconds) {
    limit_of_all = seconds;
}

/* Names are copied only if they differ from those of the previous call. */
static void write_down(const char *who, const char *call) {
    if (who != atomic_load_explicit(&current_who, memory_order_relaxed))
        snprintf(note->who, sizeof note->who, "%s", who);
    snprintf(note->call, sizeof note->call, "%s", call);
}

void lab_peer_enter(const char *who, const char *call, double seconds) {
    static const char *last_call;
    if (who != atomic_load_explicit(&current_who, memory_order_relaxed) || call != last_call)
        write_down(who, call);
    last_call = call;
    atomic_store_explicit(&current_who, who, memory_order_relaxed);
    atomic_store_explicit(&current_call, call, memory_order_relaxed);
    atomic_store_explicit(&note->seconds, limit_of_all > 0.0 ? limit_of_all : seconds,
                          memory_order_relaxed);
    atomic_store_explicit(&note->calls,
                          atomic_load_explicit(&note->calls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&note->inside, true, memory_order_release);
}

void lab_peer_leave(void) {
    atomic_store_explicit(&note->inside, false, memory_order_relaxed);
    atomic_store_explicit(&current_call, NULL, memory_order_relaxed);
}
