/* peer.h: plug-ins of include/attest_peer.h, loaded, checked and made subjects. */
#ifndef LAB_PEER_H
#define LAB_PEER_H

#include "attest_peer.h"
#include "lab/base/message.h"
#include "lab/subject/subject.h"

typedef struct lab_peer {
    void *library;  /* of dlopen() */
    att_peer table; /* fields that the plug-in is too old for are zero */
    char file[512]; /* as it was given */
} lab_peer;

/* Load a plug-in. What is wrong with it is said by the name of its field. From now on a crash in one of
 * its functions ends the program with a line that says so, and exit code 1. */
bool lab_peer_load(lab_peer *peer, const char *file, lab_message *why);

/* The library stays loaded: threads of its own may still be at work. */
void lab_peer_unload(lab_peer *peer);

/* The same checks on a table that is linked in. */
bool lab_peer_check(const att_peer *table, lab_message *why);

/* The peer on the context's device; both must outlive the subject. */
lab_subject lab_subject_peer(const lab_peer *peer, att_context *ctx);

#endif
