/* atomic_file.c: temporary files, and the list of them that is cleared when the program
 * dies. */
#include "lab/base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The temporary files that exist now. A file beyond the last slot works, but is not listed. */
enum { SLOTS = LAB_ATOMIC_FILES };
static _Atomic(char *) in_being[SLOTS];
static lab_atomic_list *listed; /* NULL: not listed */
static pid_t only_here;         /* 0: any process */

void lab_atomic_only_here(lab_atomic_list *shared) {
    listed = shared;
    only_here = getpid();
}

static bool is_here(const char *path, lab_message *why) {
    return only_here == 0 || only_here == getpid() ||
           lab_fail(why, "%s: only the process that opened it may write it, not a fork of it",
                    path);
}

static void enlist(char *temporary) {
    for (int i = 0; i < SLOTS; i++) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&in_being[i], &none, temporary)) {
            if (listed && strlen(temporary) < LAB_ATOMIC_NAME)
                strcpy(listed->name[i], temporary);
            return;
        }
    }
}

static void strike(char *temporary) {
    for (int i = 0; i < SLOTS; i++) {
        char *mine = temporary;
        if (atomic_compare_exchange_strong(&in_being[i], &mine, NULL) && listed)
            listed->name[i][0] = '\0';
    }
}

void lab_atomic_remove_listed(lab_atomic_list *shared) {
    for (int i = 0; i < SLOTS; i++)
        if (shared->name[i][0])
            unlink(shared->name[i]);
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

/* The folder of `path`, for free(); NULL if memory ran out. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* The full name of a file that does not exist, for free(): it stays the same file if a plug-in
 * changes the working folder. NULL if there is no such folder or memory ran out. */
static char *path_of_new(const char *path) {
    char *folder = folder_of(path), *full = folder ? realpath(folder, NULL) : NULL, *out = NULL;
    const char *slash = strrchr(path, '/');
    if (full && asprintf(&out, "%s/%s", strcmp(full, "/") == 0 ? "" : full,
                         slash ? slash + 1 : path) < 0)
        out = NULL;
    free(full);
    free(folder);
    return out;
}

/* Follow symbolic links, so that the rename replaces their target and not the link. `info`
 * describes the file that is there already; st_mode is 0 if there is none. */
static bool resolve(lab_atomic_file *file, const char *path, struct stat *info,
                    lab_message *why) {
    info->st_mode = 0;
    file->path = realpath(path, NULL);
    if (!file->path && errno == ENOENT)
        file->path = path_of_new(path);
    if (!file->path)
        return system_failed(why, path, "cannot be created");
    if (stat(file->path, info) == 0 && !S_ISREG(info->st_mode))
        return lab_fail(why, "%s: is not a regular file", path);
    return true;
}

enum { DESCRIPTOR_PATH = 40 };

static void descriptor_path(char path[DESCRIPTOR_PATH], int fd) {
    snprintf(path, DESCRIPTOR_PATH, "/proc/self/fd/%d", fd);
}

/* Open a file that has no name until it is committed: however the program dies, nothing is left
 * behind. Returns -1 if the file system or the machine does not support this. */
static int open_nameless(const char *path) {
    char *folder = folder_of(path), name[DESCRIPTOR_PATH];
    int fd = folder ? open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666) : -1;
    free(folder);
    descriptor_path(name, fd);
    if (fd >= 0 && access(name, F_OK) != 0) { /* without /proc it could not be given a name */
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool open_named(lab_atomic_file *file, const char *path, lab_message *why) {
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

/* Keep the owner and the permissions of the old file, as far as this user is allowed to. */
static bool keep_mode(const lab_atomic_file *file, const char *path, const struct stat *before,
                      lab_message *why) {
    if (before->st_mode == 0)
        return true;
    if (fchown(file->fd, before->st_uid, before->st_gid) != 0 && errno != EPERM)
        return system_failed(why, path, "cannot be given its owner");
    return fchmod(file->fd, before->st_mode & 0777) == 0 ||
           system_failed(why, path, "cannot be given its permissions");
}

bool lab_atomic_create(lab_atomic_file *file, const char *path, lab_message *why) {
    *file = (lab_atomic_file){.fd = -1};
    struct stat before;
    bool ok = is_here(path, why) && resolve(file, path, &before, why);
    if (ok) {
        file->fd = open_nameless(file->path);
        ok = (file->fd >= 0 || open_named(file, path, why)) &&
             keep_mode(file, path, &before, why);
    }
    if (!ok)
        lab_atomic_discard(file);
    return ok;
}

/* Give a nameless file its final name if that is free, otherwise an unused temporary name. */
static bool give_name(lab_atomic_file *file, bool *in_place) {
    char from[DESCRIPTOR_PATH];
    descriptor_path(from, file->fd);
    *in_place = linkat(AT_FDCWD, from, AT_FDCWD, file->path, AT_SYMLINK_FOLLOW) == 0;
    while (!*in_place && errno == EEXIST && !file->temporary) {
        static atomic_uint count;
        char *name;
        if (asprintf(&name, "%s.%ld.%u", file->path, (long)getpid(),
                     atomic_fetch_add(&count, 1)) < 0)
            return false;
        enlist(name);
        if (linkat(AT_FDCWD, from, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
            file->temporary = name;
        } else {
            const int code = errno;
            strike(name);
            free(name);
            errno = code;
        }
    }
    return *in_place || file->temporary;
}

/* The rename reaches the disk when its folder does. Not every file system supports this. */
static void sync_folder(const char *path) {
    char *folder = folder_of(path);
    const int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(folder);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

bool lab_atomic_commit(lab_atomic_file *file, lab_message *why) {
    bool in_place = false;
    bool ok = is_here(file->path, why) &&
              (fsync(file->fd) == 0 ||
               system_failed(why, file->path, "cannot be written to the disk"));
    ok = ok && (file->temporary || give_name(file, &in_place) ||
                system_failed(why, file->path, "cannot be put in place"));
    ok = ok && (in_place || rename(file->temporary, file->path) == 0 ||
                system_failed(why, file->path, "cannot be put in place"));
    if (ok) {
        sync_folder(file->path);
        if (file->temporary)
            strike(file->temporary);
        free(file->temporary);
        file->temporary = NULL;
    }
    lab_atomic_discard(file);
    return ok;
}

void lab_atomic_discard(lab_atomic_file *file) {
    if (file->path && file->fd >= 0)
        close(file->fd);
    if (file->temporary) {
        unlink(file->temporary);
        strike(file->temporary);
        free(file->temporary);
    }
    free(file->path);
    *file = (lab_atomic_file){.fd = -1};
}
