/* context_rows.c: the user's own rows: which text or file they are read from. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/context.h"
#include "base/alloc.h"
#include "base/error.h"

/* The whole file, zero-terminated. Only regular files are accepted. */
static att_status read_file(char **out, int fd, const char *path, const char *field) {
    struct stat info;
    ATT_REQUIRE(fstat(fd, &info) == 0 && S_ISREG(info.st_mode), ATT_E_ARG, field,
                "%s: %.200s is not a regular file", field, path);
    ATT_REQUIRE(info.st_size <= ATT_USER_TEXT_MAX, ATT_E_ARG, field,
                "%s: %.200s is longer than %d bytes", field, path, ATT_USER_TEXT_MAX);
    const size_t size = (size_t)info.st_size;
    char *text = att_alloc(size + 1);
    ATT_REQUIRE(text, ATT_E_MEMORY, "", "out of memory for %.200s", path);
    size_t have = 0;
    while (have < size) {
        const ssize_t got = read(fd, text + have, size - have);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            break;
        have += got > 0 ? (size_t)got : 0;
    }
    /* A zero byte would hide what follows it. */
    if (have < size || memchr(text, '\0', size)) {
        att_free(text);
        return att_fail(ATT_E_ARG, field, "%s: %.200s cannot be read, or is not text", field,
                        path);
    }
    *out = text;
    return ATT_OK;
}

/* Read a file that must exist, unless `may_be_absent`. */
static att_status read_path(att_user_rows **out, const char *path, const char *field,
                            bool may_be_absent) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && may_be_absent && (errno == ENOENT || errno == ENOTDIR))
        return ATT_OK;
    ATT_REQUIRE(fd >= 0, ATT_E_ARG, field, "%s: %.200s: %s", field, path, strerror(errno));
    char *text = NULL;
    att_status status = read_file(&text, fd, path, field);
    close(fd);
    if (status == ATT_OK)
        status = att_user_rows_read(out, text, path, field);
    att_free(text);
    return status;
}

/* $XDG_CONFIG_HOME/attest/rows, or ~/.config/attest/rows; false if the environment sets
 * neither. */
static bool own_file(char *path, size_t n) {
    const char *config = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
    int length = -1;
    if (config && *config == '/')
        length = snprintf(path, n, "%s/attest/rows", config);
    else if (home && *home == '/')
        length = snprintf(path, n, "%s/.config/attest/rows", home);
    return length > 0 && (size_t)length < n;
}

att_status att_context_read_rows(att_user_rows **out, const att_context_options *o) {
    *out = NULL;
    if (o->rows)
        return *o->rows ? att_user_rows_read(out, o->rows, "rows", "rows") : ATT_OK;
    if (o->rows_file)
        return *o->rows_file ? read_path(out, o->rows_file, "rows_file", false) : ATT_OK;
    const char *named = secure_getenv("ATTEST_ROWS");
    if (named)
        return *named ? read_path(out, named, "ATTEST_ROWS", false) : ATT_OK;
    char path[4096];
    return own_file(path, sizeof path) ? read_path(out, path, "rows_file", true) : ATT_OK;
}

att_status att_context_check_rows(const att_context_options *o) {
    att_user_rows *rows = NULL;
    if (!o->rows && !o->rows_file && !secure_getenv("ATTEST_ROWS"))
        return ATT_OK;
    ATT_TRY(att_context_read_rows(&rows, o));
    att_free(rows);
    return ATT_OK;
}
