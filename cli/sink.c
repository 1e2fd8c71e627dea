/* sink.c: output by way of a temporary file and a rename. */
#include "cli/sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool failed(const cli_options *o, const char *path) {
    return cli_complain(o, "%s: cannot be written: %s", path, strerror(errno));
}

bool cli_sink_open(cli_sink *sink, const cli_options *o, const char *path) {
    *sink = (cli_sink){.path = path};
    if (!path)
        return true;
    if (strcmp(path, "-") == 0) {
        sink->stream = stdout;
        return true;
    }
    struct stat info;
    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        sink->stream = fopen(path, "w"); /* a device, a pipe or a link: written as it is */
        return sink->stream || failed(o, path);
    }
    if (asprintf(&sink->temporary, "%s.XXXXXX", path) < 0) {
        sink->temporary = NULL;
        return cli_complain(o, "out of memory");
    }
    const int fd = mkstemp(sink->temporary);
    if (fd < 0) {
        free(sink->temporary);
        sink->temporary = NULL;
        return failed(o, path);
    }
    const mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);
    sink->stream = fdopen(fd, "w");
    return sink->stream || failed(o, path);
}

bool cli_sink_commit(cli_sink *sink, const cli_options *o) {
    if (!sink->stream)
        return true;
    FILE *stream = sink->stream;
    sink->stream = NULL;
    const bool written = !ferror(stream);
    if ((stream == stdout ? fflush(stream) : fclose(stream)) != 0 || !written)
        return failed(o, sink->path);
    if (!sink->temporary)
        return true;
    if (rename(sink->temporary, sink->path) != 0)
        return failed(o, sink->path);
    free(sink->temporary);
    sink->temporary = NULL;
    return true;
}

void cli_sink_discard(cli_sink *sink) {
    if (sink->stream && sink->stream != stdout)
        fclose(sink->stream);
    if (sink->temporary)
        unlink(sink->temporary);
    free(sink->temporary);
    *sink = (cli_sink){0};
}
