/* data_file.h: the data that ships with the program, found relative to the program's own
 * path. */
#ifndef LAB_DATA_FILE_H
#define LAB_DATA_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lab/base/message.h"

/* A kind of data: suites, devices. */
typedef struct lab_data_kind {
    const char *what;        /* "suite" */
    const char *folder;      /* "suites" */
    const char *suffix;      /* ".txt" */
    const char *environment; /* environment variable with a folder to search first */
} lab_data_kind;

/* Open the file of that name. A name without '/' gets the suffix and is searched in the
 * folder that the environment variable names, then beside the program in FOLDER/, ../FOLDER/
 * and ../share/attest/FOLDER/. A name with '/' is a path. `path`, of n bytes, receives the
 * path that was opened. Returns NULL on failure: `why` then names the file or the folders
 * searched. */
FILE *lab_data_open(const lab_data_kind *kind, const char *name, char *path, size_t n,
                    lab_message *why);

/* The first of those folders that exists; false if none does. */
bool lab_data_folder(const lab_data_kind *kind, char *path, size_t n);

/* Call `visit` with the name of every file of the kind, sorted, from the first of those folders
 * that has one. */
void lab_data_list(const lab_data_kind *kind, void (*visit)(const char *name, void *state),
                   void *state);

#endif
