/* sink.c: output that is put in place when it is complete. */
#include "cli/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool failed(const cli_options *o, const char *path) {
    return cli_complain(o, "%s: cannot be written: %s", path, strerror(errno));
}

static bool is_device_or_pipe(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

bool cli_sink_open(cli_sink *sink, const cli_options *o, const char *path) {
    *sink = (cli_sink){.path = path};
    if (!path)
        return true;
    if (strcmp(path, "-") == 0) {
        sink->stream = stdout;
        return true;
    }
    if (is_device_or_pipe(path)) {
        sink->stream = fopen(path, "w");
        return sink->stream || failed(o, path);
    }
    lab_message why;
    if (!lab_atomic_create(&sink->file, path, &why))
        return cli_complain(o, "%s", why.text);
    const int copy = fcntl(sink->file.fd, F_DUPFD_CLOEXEC, 0);
    sink->stream = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (sink->stream)
        return true;
    failed(o, path);
    if (copy >= 0)
        close(copy);
    return false;
}

bool cli_sink_commit(cli_sink *sink, const cli_options *o) {
    if (!sink->stream)
        return true;
    FILE *stream = sink->stream;
    sink->stream = NULL;
    const bool written = !ferror(stream);
    if ((stream == stdout ? fflush(stream) : fclose(stream)) != 0 || !written)
        return failed(o, sink->path);
    lab_message why;
    return !sink->file.path || lab_atomic_commit(&sink->file, &why) ||
           cli_complain(o, "%s", why.text);
}

void cli_sink_discard(cli_sink *sink) {
    if (sink->stream && sink->stream != stdout)
        fclose(sink->stream);
    lab_atomic_discard(&sink->file);
    *sink = (cli_sink){0};
}
