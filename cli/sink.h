/* sink.h: a file that appears whole or not at all, opened before the work that fills it. */
#ifndef CLI_SINK_H
#define CLI_SINK_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/options.h"
#include "lab/base/atomic_file.h"

typedef struct cli_sink {
    FILE *stream; /* NULL: not requested */
    const char *path;
    lab_atomic_file file; /* unused if the stream is a device or stdout */
} cli_sink;

/* Open `path`: "-" is stdout, NULL means no output. On failure: prints an error, returns
 * false. */
bool cli_sink_open(cli_sink *sink, const cli_options *o, const char *path);

/* Flush and put the file in place. On failure: prints an error, returns false. */
bool cli_sink_commit(cli_sink *sink, const cli_options *o);

/* Close and remove an uncommitted file; allowed after a commit. */
void cli_sink_discard(cli_sink *sink);

#endif
