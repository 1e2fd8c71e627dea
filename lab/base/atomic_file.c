/* atomic_file.c: temporary files, and the list of them that a dying program clears. */
#include "lab/base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The temporary files in being. A file past the last slot works, but is not on the list. */
enum { SLOTS = 16 };
static _Atomic(char *) in_being[SLOTS];

static void enlist(char *temporary) {
    for (int i = 0; i < SLOTS; i++) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&in_being[i], &none, temporary))
            return;
    }
}

static void strike(char *temporary) {
    for (int i = 0; i < SLOTS; i++) {
        char *mine = temporary;
        atomic_compare_exchange_strong(&in_being[i], &mine, NULL);
    }
}

void lab_atomic_remove_all(void) {
    for (int i = 0; i < SLOTS; i++) {
        const char *temporary = atomic_load(&in_being[i]);
        if (temporary)
            unlink(temporary);
    }
}

static bool system_failed(lab_message *why, const char *path, const char *what) {
    return lab_fail(why, "%s: %s: %s", path, what, strerror(errno));
}

/* Symbolic links are followed, so that the rename replaces their target and not the link. */
static bool resolve(lab_atomic_file *file, const char *path, lab_message *why) {
    file->path = realpath(path, NULL);
    if (!file->path && errno == ENOENT)
        file->path = strdup(path);
    if (!file->path)
        return system_failed(why, path, "cannot resolve");
    struct stat info;
    if (stat(file->path, &info) == 0 && !S_ISREG(info.st_mode))
        return lab_fail(why, "%s: is there and is not a regular file", path);
    return true;
}

static bool open_temporary(lab_atomic_file *file, const char *path, lab_message *why) {
    char *temporary;
    if (asprintf(&temporary, "%s.XXXXXX", file->path) < 0)
        return lab_fail(why, "%s: no memory for its name", path);
    file->fd = mkostemp(temporary, O_CLOEXEC);
    if (file->fd < 0) {
        system_failed(why, path, "cannot be created");
        free(temporary);
        return false;
    }
    file->temporary = temporary;
    enlist(temporary);
    const mode_t mask = umask(0);
    umask(mask);
    return fchmod(file->fd, 0666 & ~mask) == 0 ||
           system_failed(why, path, "cannot be given its permissions");
}

bool lab_atomic_create(lab_atomic_file *file, const char *path, lab_message *why) {
    *file = (lab_atomic_file){.fd = -1};
    if (resolve(file, path, why) && open_temporary(file, path, why))
        return true;
    lab_atomic_discard(file);
    return false;
}

bool lab_atomic_commit(lab_atomic_file *file, lab_message *why) {
    const bool ok = rename(file->temporary, file->path) == 0 ||
                    system_failed(why, file->path, "cannot be put in place");
    if (ok) {
        strike(file->temporary);
        free(file->temporary);
        file->temporary = NULL;
    }
    lab_atomic_discard(file);
    return ok;
}

void lab_atomic_discard(lab_atomic_file *file) {
    if (file->temporary) {
        if (file->fd >= 0)
            close(file->fd);
        unlink(file->temporary);
        strike(file->temporary);
        free(file->temporary);
    }
    free(file->path);
    *file = (lab_atomic_file){.fd = -1};
}
