/* peer_load.c: opens plug-ins and checks the form of their tables. */
#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/float_state.h"
#include "lab/subject/peer.h"
#include "lab/subject/peer_crash.h"

enum { NAME_MOST = 40, VERSION_MOST = 200 };

/* Limit for initialisation, including that of the libraries it uses. */
static const double load_seconds = 600.0;

/* The first version of the table had every field before this one. */
static const size_t smallest_table = offsetof(att_peer, direct);

static bool good_name(const char *name) {
    size_t n = 0;
    while (name[n] && (isalnum((unsigned char)name[n]) || strchr("-_.", name[n])))
        n++;
    return n > 0 && n <= NAME_MOST && name[n] == '\0';
}

static bool good_version(const char *version) {
    size_t n = 0;
    while (version[n] && isprint((unsigned char)version[n]))
        n++;
    return n > 0 && n <= VERSION_MOST && version[n] == '\0';
}

bool lab_peer_check(const att_peer *t, lab_message *why) {
    if (t->abi != ATT_PEER_ABI)
        return lab_fail(why,
                        "abi is %u, this attest speaks %d: compile the plug-in against its "
                        "attest_peer.h",
                        (unsigned)t->abi, ATT_PEER_ABI);
    if (t->size < smallest_table)
        return lab_fail(why, "size is %zu, expected sizeof(att_peer), at least %zu", t->size,
                        smallest_table);
    if (!t->name || !good_name(t->name))
        return lab_fail(why, "name: expected 1 to %d letters, digits, '-', '_' and '.'",
                        NAME_MOST);
    if (strcmp(t->name, "attest") == 0)
        return lab_fail(why, "name: \"attest\" is taken");
    if (!t->version || !good_version(t->version))
        return lab_fail(why, "version: expected a line of text");
    if (t->devices == 0 || t->devices & ~(uint32_t)(ATT_PEER_CPU | ATT_PEER_CUDA))
        return lab_fail(why, "devices is 0x%x, expected ATT_PEER_CPU, ATT_PEER_CUDA or both",
                        (unsigned)t->devices);
    const char *missing = !t->supports    ? "supports"
                          : !t->prepare   ? "prepare"
                          : !t->workspace ? "workspace"
                          : !t->run       ? "run"
                          : !t->destroy   ? "destroy"
                                          : NULL;
    return !missing || lab_fail(why, "%s is NULL, expected a function", missing);
}

/* dlopen() searches other folders for a name without a slash. */
static bool open_library(lab_peer *peer, const char *file, lab_message *why) {
    char *path = realpath(file, NULL);
    if (!path)
        return lab_fail(why, "%s: there is no such file", file);
    const lab_float_state kept = lab_float_save();
    lab_peer_enter(file, "its initialisation", load_seconds);
    peer->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    lab_peer_leave();
    free(path);
    if (!peer->library)
        return lab_fail(why, "%s: %s", file, dlerror());
    return lab_float_restore(kept) || lab_fail(why,
                                               "%s: its initialisation left other rules of "
                                               "floating-point arithmetic behind: -ffast-math "
                                               "does so where it links",
                                               file);
}

static bool read_table(lab_peer *peer, lab_message *why) {
    const att_peer *(*get)(void) = NULL;
    *(void **)(&get) = dlsym(peer->library, "att_peer_get");
    if (!get)
        return lab_fail(why, "%s: att_peer_get: there is no such function: not a plug-in",
                        peer->file);
    const lab_float_state kept = lab_float_save();
    lab_peer_enter(peer->file, "att_peer_get()", load_seconds);
    const att_peer *table = get();
    lab_peer_leave();
    if (!lab_float_restore(kept))
        return lab_fail(
            why, "%s: att_peer_get() left other rules of floating-point arithmetic behind",
            peer->file);
    if (!table)
        return lab_fail(why, "%s: att_peer_get() gave NULL", peer->file);
    lab_message reason;
    if (!lab_peer_check(table, &reason))
        return lab_fail(why, "%s: %s", peer->file, reason.text);
    memcpy(&peer->table, table,
           table->size < sizeof peer->table ? table->size : sizeof peer->table);
    return true;
}

bool lab_peer_load(lab_peer *peer, const char *file, lab_message *why) {
    *peer = (lab_peer){.library = NULL};
    snprintf(peer->file, sizeof peer->file, "%s", file);
    lab_peer_watch();
    if (open_library(peer, file, why) && read_table(peer, why))
        return true;
    lab_peer_unload(peer);
    return false;
}

void lab_peer_unload(lab_peer *peer) {
    *peer = (lab_peer){.library = NULL};
}
