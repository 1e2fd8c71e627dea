/* data_file.c: the folders in which data is searched. */
#include "lab/base/data_file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLACES = 4 };

/* The folder of the running program, or "." if the system does not tell. */
static void program_folder(char *buf, size_t n) {
    const ssize_t length = readlink("/proc/self/exe", buf, n - 1);
    char *slash = NULL;
    if (length > 0) {
        buf[length] = '\0';
        slash = strrchr(buf, '/');
    }
    if (slash)
        *slash = '\0';
    else
        snprintf(buf, n, ".");
}

/* The i-th folder to search; false if there is none or its name is too long. */
static bool place(const lab_data_kind *kind, int i, char *buf, size_t n) {
    static const char *const beside[PLACES] = {NULL, "/", "/../", "/../share/attest/"};
    int length;
    if (beside[i]) {
        char program[PATH_MAX];
        program_folder(program, sizeof program);
        length = snprintf(buf, n, "%s%s%s", program, beside[i], kind->folder);
    } else {
        const char *chosen = getenv(kind->environment);
        if (!chosen || !*chosen)
            return false;
        length = snprintf(buf, n, "%s", chosen);
    }
    return length >= 0 && (size_t)length < n;
}

FILE *lab_data_open(const lab_data_kind *kind, const char *name, char *path, size_t n,
                    lab_message *why) {
    if (strchr(name, '/')) {
        snprintf(path, n, "%s", name);
        FILE *file = fopen(name, "r");
        if (!file)
            lab_fail(why, "%s: %s", name, strerror(errno));
        return file;
    }
    char folder[PATH_MAX];
    for (int i = 0; i < PLACES; i++) {
        if (!place(kind, i, folder, sizeof folder))
            continue;
        const int length = snprintf(path, n, "%s/%s%s", folder, name, kind->suffix);
        FILE *file = length >= 0 && (size_t)length < n ? fopen(path, "r") : NULL;
        if (file)
            return file;
    }
    program_folder(folder, sizeof folder);
    lab_fail(why,
             "no %s '%s': no %s%s in $%s, %s/%s, %s/../%s or "
             "%s/../share/attest/%s",
             kind->what, name, name, kind->suffix, kind->environment, folder, kind->folder,
             folder, kind->folder, folder, kind->folder);
    return NULL;
}

bool lab_data_folder(const lab_data_kind *kind, char *path, size_t n) {
    struct stat info;
    for (int i = 0; i < PLACES; i++)
        if (place(kind, i, path, n) && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
            return true;
    return false;
}

static bool has_suffix(const char *name, const char *suffix) {
    const size_t length = strlen(name), tail = strlen(suffix);
    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

void lab_data_list(const lab_data_kind *kind, void (*visit)(const char *name, void *state),
                   void *state) {
    bool any = false;
    for (int i = 0; i < PLACES && !any; i++) {
        char folder[PATH_MAX];
        struct dirent **entries = NULL;
        const int count = place(kind, i, folder, sizeof folder)
                              ? scandir(folder, &entries, NULL, alphasort)
                              : 0;
        for (int e = 0; e < count; e++) {
            char *name = entries[e]->d_name;
            if (has_suffix(name, kind->suffix)) {
                name[strlen(name) - strlen(kind->suffix)] = '\0';
                visit(name, state);
                any = true;
            }
            free(entries[e]);
        }
        free(entries);
    }
}
