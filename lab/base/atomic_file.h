/* atomic_file.h: a file that takes its place whole or not at all.
 *
 * It is written without a name, in the folder of its place, so that nothing of it stays however the program ends; where the
 * file system cannot do that, under a temporary name. The last step is a link or a rename, after the contents are on the
 * disk. */
#ifndef LAB_ATOMIC_FILE_H
#define LAB_ATOMIC_FILE_H

#include <stdbool.h>

#include "lab/base/message.h"

typedef struct lab_atomic_file {
    int fd;          /* open for reading and writing */
    char *path;      /* where it will be, symbolic links followed; NULL: there is no file */
    char *temporary; /* its name until then; NULL where it has none */
} lab_atomic_file;

/* Create the file, with the permissions of what is at `path` already, else with those that a plain open would give. What is
 * there must be a regular file: a device is never replaced. On failure nothing is left. */
bool lab_atomic_create(lab_atomic_file *file, const char *path, lab_message *why);

/* Put it in place of `path`. Whatever was written through a copy of the descriptor must have been flushed. On failure `path`
 * is as it was and the file is gone. */
bool lab_atomic_commit(lab_atomic_file *file, lab_message *why);

/* Close and remove it; nothing where it was committed, or never created (a zeroed struct). */
void lab_atomic_discard(lab_atomic_file *file);

/* Names of the temporary files of a process, in memory that another one sees, which clears up where the first is
 * ended without a chance to. */
enum { LAB_ATOMIC_FILES = 16, LAB_ATOMIC_NAME = 1024 };
typedef struct lab_atomic_list {
    char name[LAB_ATOMIC_FILES][LAB_ATOMIC_NAME];
} lab_atomic_list;

/* From now on files are listed there, and are created and put in place by this process alone, not by what it forks:
 * what a plug-in splits off has the same program in hand. */
void lab_atomic_only_here(lab_atomic_list *shared);

/* In the other process: remove them. */
void lab_atomic_remove_listed(lab_atomic_list *shared);

/* Remove every temporary file of this process. For signal handlers: async-signal-safe. */
void lab_atomic_remove_all(void);

#endif
