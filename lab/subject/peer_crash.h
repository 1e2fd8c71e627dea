/* peer_crash.h: a crash in a plug-in, said to be the plug-in's; and a note of which call is being made, for a process that watches. */
#ifndef LAB_PEER_CRASH_H
#define LAB_PEER_CRASH_H

#include <stdatomic.h>
#include <stdbool.h>

/* What the process that computes writes down of its calls, and the one that watches it reads: in memory that both have. */
typedef struct lab_peer_note {
    atomic_ulong calls;      /* begun so far */
    atomic_bool inside;      /* of the last of them */
    atomic_bool said;        /* the crash handler has named the peer */
    _Atomic(double) seconds; /* that this call may take; 0: as long as it likes */
    char who[64], call[32];  /* of the last call; who is "" before the first */
} lab_peer_note;

/* Write calls down there from now on. */
void lab_peer_take_notes(lab_peer_note *shared);

/* So many seconds for every call, in place of what lab_peer_enter() is given; 0: that. */
void lab_peer_limit(double seconds);

/* "SIGSEGV"; "a signal" for one that crashes do not send. */
const char *lab_peer_signal_name(int number);

/* Catch the signals of a crash from now on. */
void lab_peer_watch(void);

/* A call into the plug-in begins, which may take so many seconds, and ends. `who` and `call` are kept, not copied. Cheap enough to
 * stand around a run that is timed. */
void lab_peer_enter(const char *who, const char *call, double seconds);
void lab_peer_leave(void);

#endif
