/* spawn.c: posix_spawn, and two pipes that are read until both are closed. */
#include "lab/base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The most that is kept of a child's output, in bytes; the rest is read and dropped. */
enum { TEXT_MOST = 64 << 20, CHUNK = 1 << 16 };

typedef struct stream {
    int fd; /* -1 once closed */
    char *text;
    size_t size, room;
} stream;

static bool grow(stream *s) {
    if (s->size + CHUNK < s->room)
        return true;
    char *grown = realloc(s->text, s->room + 4 * CHUNK);
    if (!grown)
        return false;
    s->text = grown;
    s->room += 4 * CHUNK;
    return true;
}

static void shut(stream *s) {
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* Read what is available; false if memory ran out. */
static bool take(stream *s) {
    if (!grow(s))
        return false;
    const ssize_t got = read(s->fd, s->text + s->size, CHUNK);
    if (got < 0 && errno == EINTR)
        return true;
    if (got <= 0)
        shut(s);
    else if (s->size + (size_t)got < TEXT_MOST)
        s->size += (size_t)got;
    s->text[s->size] = '\0';
    return true;
}

static bool take_all(stream streams[2]) {
    while (streams[0].fd >= 0 || streams[1].fd >= 0) {
        struct pollfd ready[2] = {{.fd = streams[0].fd, .events = POLLIN},
                                  {.fd = streams[1].fd, .events = POLLIN}};
        if (poll(ready, 2, -1) < 0 && errno != EINTR)
            return false;
        for (int i = 0; i < 2; i++)
            if (streams[i].fd >= 0 && ready[i].revents && !take(&streams[i]))
                return false;
    }
    return true;
}

static int status_of(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 255;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Start the program with the write ends of the pipes. With error = -1 its messages go to this
 * program's stderr. Returns 0 or an error code. */
static int start(pid_t *child, const char *program, const char *const argv[], const char *input,
                 int out, int error) {
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);
    if (code)
        return code;
    if (!(code = posix_spawn_file_actions_addopen(&actions, 0, input ? input : "/dev/null",
                                                  O_RDONLY, 0)) &&
        !(code = posix_spawn_file_actions_adddup2(&actions, out, 1)) &&
        !(code = error < 0 ? 0 : posix_spawn_file_actions_adddup2(&actions, error, 2)))
        code = posix_spawnp(child, program, &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

static bool open_pipes(int out[2], int error[2]) {
    if (pipe2(out, O_CLOEXEC) != 0)
        return false;
    if (pipe2(error, O_CLOEXEC) == 0)
        return true;
    close(out[0]);
    close(out[1]);
    return false;
}

/* Run it to its end. Returns 0, an error code if it cannot be started, or -1 if memory ran
 * out. */
static int run(lab_child *child, const char *program, const char *const argv[],
               const char *input, bool keep_error) {
    *child = (lab_child){.status = 255};
    int out[2], error[2];
    if (!open_pipes(out, error))
        return errno;
    pid_t pid = 0;
    const int code = start(&pid, program, argv, input, out[1], keep_error ? error[1] : -1);
    close(out[1]);
    close(error[1]);
    stream streams[2] = {{.fd = out[0]}, {.fd = error[0]}};
    const bool read_all = code == 0 && take_all(streams);
    shut(&streams[0]);
    shut(&streams[1]);
    if (code == 0)
        child->status = status_of(pid);
    child->out = streams[0].text;
    child->error = streams[1].text;
    if (read_all)
        return 0;
    lab_child_free(child);
    return code ? code : -1;
}

static bool explain(int code, const char *program, lab_message *why) {
    if (code < 0)
        return lab_fail(why, "%s: no memory for what it prints", program);
    return code == 0 || lab_fail(why, "%s: cannot be started: %s", program, strerror(code));
}

bool lab_spawn(lab_child *child, const char *const argv[], const char *input, bool *missing,
               lab_message *why) {
    const int code = run(child, argv[0], argv, input, true);
    if (missing)
        *missing = code == ENOENT;
    return explain(code, argv[0], why);
}

bool lab_spawn_self(lab_child *child, const char *const argv[], lab_message *why) {
    return explain(run(child, "/proc/self/exe", argv, NULL, false), argv[0], why);
}

void lab_child_free(lab_child *child) {
    free(child->out);
    free(child->error);
    child->out = child->error = NULL;
}
