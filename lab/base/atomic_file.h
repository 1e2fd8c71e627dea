/* atomic_file.h: a file that is put in place whole or not at all.
 *
 * It is written without a name in the destination folder, so that nothing is left behind
 * however the program ends; if the file system cannot do that, under a temporary name. The last
 * step is a link or a rename, after the contents are on the disk. */
#ifndef LAB_ATOMIC_FILE_H
#define LAB_ATOMIC_FILE_H

#include <stdbool.h>

#include "lab/base/message.h"

typedef struct lab_atomic_file {
    int fd;          /* open for reading and writing */
    char *path;      /* destination, symbolic links followed; NULL: there is no file */
    char *temporary; /* its name until then; NULL if it has none */
} lab_atomic_file;

/* Create the file with the permissions of the file that is at `path` already, or with those of
 * a plain open. An existing file must be a regular file: a device is never replaced. On failure
 * nothing is left behind. */
bool lab_atomic_create(lab_atomic_file *file, const char *path, lab_message *why);

/* Put it in place of `path`. Anything written through a copy of the descriptor must have been
 * flushed. On failure `path` is unchanged and the file is gone. */
bool lab_atomic_commit(lab_atomic_file *file, lab_message *why);

/* Close and remove the file. Does nothing if it was committed or never created (a zeroed
 * struct). */
void lab_atomic_discard(lab_atomic_file *file);

/* Names of the temporary files of a process, in memory shared with another process, which
 * removes the files if the first process is killed. */
enum { LAB_ATOMIC_FILES = 16, LAB_ATOMIC_NAME = 1024 };
typedef struct lab_atomic_list {
    char name[LAB_ATOMIC_FILES][LAB_ATOMIC_NAME];
} lab_atomic_list;

/* From now on files are listed there, and only this process creates them and puts them in
 * place. Its forks do not: a process that a plug-in forks holds a copy of the same program. */
void lab_atomic_only_here(lab_atomic_list *shared);

/* For the other process: remove the listed files. */
void lab_atomic_remove_listed(lab_atomic_list *shared);

/* Remove every temporary file of this process. Async-signal-safe, for signal handlers. */
void lab_atomic_remove_all(void);

#endif
