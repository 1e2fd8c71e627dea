/* peer_crash.h: attributes a crash to the plug-in that caused it, and records the current call
 * for a watching process. */
#ifndef LAB_PEER_CRASH_H
#define LAB_PEER_CRASH_H

#include <stdatomic.h>
#include <stdbool.h>

/* A record of the calls, in shared memory: the computing process writes it, the watching
 * process reads it. */
typedef struct lab_peer_note {
    atomic_ulong calls;      /* calls begun so far */
    atomic_bool inside;      /* whether the last of them is in progress */
    atomic_bool said;        /* the crash handler has named the peer */
    _Atomic(double) seconds; /* limit for this call; 0: none */
    char who[64], call[32];  /* of the last call; who is "" before the first */
} lab_peer_note;

/* Record calls there from now on. */
void lab_peer_take_notes(lab_peer_note *shared);

/* A limit in seconds for every call, which replaces the argument of lab_peer_enter(); 0: use
 * that argument. */
void lab_peer_limit(double seconds);

/* "SIGSEGV"; "a signal" for one that a crash does not send. */
const char *lab_peer_signal_name(int number);

/* Catch the signals of a crash from now on. */
void lab_peer_watch(void);

/* A call into the plug-in begins, which may take that many seconds, and ends. `who` and `call`
 * are kept, not copied. Cheap enough to use around a timed run. */
void lab_peer_enter(const char *who, const char *call, double seconds);
void lab_peer_leave(void);

#endif
