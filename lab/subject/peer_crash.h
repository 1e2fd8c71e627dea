/* peer_crash.h: a crash in a plug-in, said to be the plug-in's. */
#ifndef LAB_PEER_CRASH_H
#define LAB_PEER_CRASH_H

/* Catch the signals of a crash from now on. */
void lab_peer_watch(void);

/* A call into the plug-in begins and ends. `who` and `call` are kept, not copied. Cheap enough to stand
 * around a run that is timed. */
void lab_peer_enter(const char *who, const char *call);
void lab_peer_leave(void);

#endif
