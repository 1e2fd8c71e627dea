/* peer.h: plug-ins of include/attest_peer.h, loaded, checked and turned into subjects. */
#ifndef LAB_PEER_H
#define LAB_PEER_H

#include "attest_peer.h"
#include "lab/base/message.h"
#include "lab/subject/subject.h"

typedef struct lab_peer {
    void *library;  /* of dlopen() */
    att_peer table; /* fields newer than the plug-in are zero */
    char file[512]; /* as given */
} lab_peer;

/* Load a plug-in. An error names the field at fault. From now on a crash in one of its
 * functions ends the program with a message that says so, and exit code 1. */
bool lab_peer_load(lab_peer *peer, const char *file, lab_message *why);

/* The library stays loaded: its own threads may still be running. */
void lab_peer_unload(lab_peer *peer);

/* The same checks for a table that is linked in. */
bool lab_peer_check(const att_peer *table, lab_message *why);

/* The peer on the context's device; both must outlive the subject. */
lab_subject lab_subject_peer(const lab_peer *peer, att_context *ctx);

#endif
