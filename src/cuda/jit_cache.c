/* jit_cache.c: a private folder of compiled kernels. Every path is opened once and checked
 * through its descriptor. */
#include "cuda/jit_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/sha256.h"

/* The format of an entry: these words, the digest of key and contents, a newline, the
 * contents. */
static const char magic[] = "attest machine code 1\n";
enum {
    MAGIC_BYTES = sizeof magic - 1,
    DIGEST_BYTES = ATT_SHA256_HEX - 1,
    HEADER_BYTES = MAGIC_BYTES + DIGEST_BYTES + 1,
    ENTRY_MAX = 32 << 20
};

static bool default_folder(char out[PATH_MAX]) {
    /* A program that runs with another user's rights must not trust the environment. */
    const char *base = secure_getenv("XDG_CACHE_HOME"), *below = "attest";
    if (!base || base[0] != '/') {
        base = secure_getenv("HOME");
        below = ".cache/attest";
    }
    return base && base[0] == '/' && snprintf(out, PATH_MAX, "%s/%s", base, below) < PATH_MAX;
}

static void make_folders(char *path) {
    for (char *end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
        *end = '\0';
        mkdir(path, 0700);
        *end = '/';
    }
    mkdir(path, 0700);
}

static bool is_private(const struct stat *s) {
    return s->st_uid == geteuid() && (s->st_mode & 077) == 0;
}

int att_jit_cache_open(const char *folder) {
    char path[PATH_MAX];
    if (!folder && !default_folder(path))
        return -1;
    if (folder && (!*folder || snprintf(path, sizeof path, "%s", folder) >= PATH_MAX))
        return -1;
    /* With a trailing slash, a symbolic link would be followed. */
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
    make_folders(path);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    struct stat s;
    if (fstat(fd, &s) == 0 && is_private(&s))
        return fd;
    close(fd);
    return -1;
}

static bool read_all(int fd, unsigned char *out, size_t bytes) {
    while (bytes > 0) {
        const ssize_t got = read(fd, out, bytes);
        if (got <= 0)
            return false;
        out += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t bytes) {
    const unsigned char *from = data;
    while (bytes > 0) {
        const ssize_t put = write(fd, from, bytes);
        if (put <= 0)
            return false;
        from += put;
        bytes -= (size_t)put;
    }
    return true;
}

/* The digest includes the key, so that no entry can be mistaken for another. */
static void digest_of(char hex[ATT_SHA256_HEX], const char *key, const unsigned char *bytes,
                      size_t size) {
    att_sha256 sha;
    att_sha256_begin(&sha);
    att_sha256_add(&sha, key, strlen(key));
    att_sha256_add(&sha, bytes, size);
    att_sha256_end(&sha, hex);
}

static bool is_intact(const unsigned char *entry, size_t bytes, const char *key) {
    char digest[ATT_SHA256_HEX];
    digest_of(digest, key, entry + HEADER_BYTES, bytes - HEADER_BYTES);
    return memcmp(entry, magic, MAGIC_BYTES) == 0 &&
           memcmp(entry + MAGIC_BYTES, digest, DIGEST_BYTES) == 0 &&
           entry[HEADER_BYTES - 1] == '\n';
}

unsigned char *att_jit_cache_read(int folder, const char *key, size_t *size) {
    const int fd = openat(folder, key, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    unsigned char *entry = NULL;
    struct stat s;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && is_private(&s) &&
        s.st_size > HEADER_BYTES && s.st_size <= ENTRY_MAX)
        entry = att_alloc((size_t)s.st_size);
    if (entry && (!read_all(fd, entry, (size_t)s.st_size) ||
                  !is_intact(entry, (size_t)s.st_size, key))) {
        att_free(entry);
        entry = NULL;
    }
    close(fd);
    if (!entry)
        return NULL;
    *size = (size_t)s.st_size - HEADER_BYTES;
    memmove(entry, entry + HEADER_BYTES, *size);
    return entry;
}

/* The bytes of all files in the folder, and the oldest file. */
static int64_t measure(int folder, char oldest[NAME_MAX + 1]) {
    oldest[0] = '\0';
    const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy >= 0 ? fdopendir(copy) : NULL;
    if (!list) {
        if (copy >= 0)
            close(copy);
        return 0;
    }
    int64_t total = 0;
    struct timespec first = {0};
    /* The DIR is local to this call: readdir is safe on it. */
    for (struct dirent *file = readdir(list); file; file = readdir(list)) { // NOLINT
        struct stat s;
        if (fstatat(folder, file->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(s.st_mode))
            continue;
        total += s.st_size;
        if (!*oldest || s.st_mtim.tv_sec < first.tv_sec ||
            (s.st_mtim.tv_sec == first.tv_sec && s.st_mtim.tv_nsec < first.tv_nsec)) {
            first = s.st_mtim;
            snprintf(oldest, NAME_MAX + 1, "%s", file->d_name);
        }
    }
    closedir(list);
    return total;
}

static bool make_room(int folder, int64_t bytes, int64_t limit) {
    char oldest[NAME_MAX + 1];
    while (measure(folder, oldest) > limit - bytes)
        if (!*oldest || unlinkat(folder, oldest, 0) != 0)
            return false;
    return true;
}

void att_jit_cache_write(int folder, const char *key, const unsigned char *bytes, size_t size,
                         int64_t limit) {
    if (size > ENTRY_MAX - HEADER_BYTES ||
        !make_room(folder, (int64_t)(size + HEADER_BYTES), limit))
        return;
    char name[NAME_MAX], digest[ATT_SHA256_HEX];
    snprintf(name, sizeof name, ".%s.%ld.%ld", key, (long)getpid(), (long)gettid());
    unlinkat(folder, name, 0);
    const int fd =
        openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    digest_of(digest, key, bytes, size);
    const bool written = write_all(fd, magic, MAGIC_BYTES) &&
                         write_all(fd, digest, DIGEST_BYTES) && write_all(fd, "\n", 1) &&
                         write_all(fd, bytes, size);
    if (close(fd) != 0 || !written || renameat(folder, name, folder, key) != 0)
        unlinkat(folder, name, 0);
}
