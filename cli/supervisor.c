/* supervisor.c: fork, a pipe for the result, shared memory for the name of the call, and a
 * clock. */
#include "cli/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/options.h"
#include "lab/base/atomic_file.h"
#include "lab/base/clock.h"
#include "lab/base/entropy.h"
#include "lab/subject/peer_crash.h"

/* The interval for checking the clock, and the time that a program has to end after it is asked
 * to. */
enum { LOOK_MS = 100, GRACE_MS = 2000 };

/* What the program sends when it has finished. */
typedef struct ending {
    uint64_t token; /* made before the fork */
    pid_t pid;      /* of the child itself, not of a process that it forks */
    int result;
} ending;

typedef struct watch {
    pid_t child;
    int pipe; /* its read end; -1 once closed */
    uint64_t token;
    lab_peer_note *note;
    lab_atomic_list *files;
    bool ended; /* `last` is set */
    ending last;
    unsigned long call; /* the call in progress at the last check, */
    uint64_t since;     /* and when it was first seen */
} watch;

static volatile sig_atomic_t child_to_tell;

bool cli_wants_supervisor(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--peer") == 0 || strncmp(argv[i], "--peer=", 7) == 0)
            return true;
    return false;
}

/* -------------------------------------------------------------------------- the child */

/* Run the program, then send its result through the pipe; what happens afterwards does not
 * matter. */
static int be_the_program(int argc, char **argv, int (*program)(int argc, char **argv),
                          const watch *w, int pipe) {
    const pid_t self = getpid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    lab_peer_take_notes(w->note);
    lab_atomic_only_here(w->files);
    ending last = {.token = w->token};
    last.result = program(argc, argv);
    last.pid = getpid();
    if (last.pid != self)
        _exit(CLI_CHECK_FAILED); /* a plug-in forked, and its parent is gone */
    const ssize_t sent = write(pipe, &last, sizeof last);
    (void)sent;
    close(pipe);
    return last.result;
}

/* ------------------------------------------------------------------------- the parent */

/* The kernel has sent a terminal's signal to the child too, and a second one would mean
 * something else. */
static void tell_child(int number, siginfo_t *from, void *context) {
    (void)context;
    if (number != SIGCHLD && from->si_code <= 0)
        kill((pid_t)child_to_tell, number);
}

/* SIGCHLD is one of them: it ends the wait for the child's message. */
static void take_signals(pid_t child) {
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    child_to_tell = child;
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++) {
        struct sigaction action = {.sa_sigaction = tell_child, .sa_flags = SA_SIGINFO};
        struct sigaction before;
        sigemptyset(&action.sa_mask);
        if (sigaction(passed[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(passed[i], &action, NULL);
    }
}

/* Die from the same signal as the child. */
static int die_of(int number) {
    signal(number, SIG_DFL);
    raise(number);
    return 128 + number;
}

static void hear(watch *w, int milliseconds) {
    struct pollfd ready = {.fd = w->pipe, .events = POLLIN};
    if (poll(&ready, w->pipe >= 0, milliseconds) <= 0 || !ready.revents)
        return;
    ending said;
    const ssize_t got = read(w->pipe, &said, sizeof said);
    if (got == (ssize_t)sizeof said && said.token == w->token && said.pid == w->child) {
        w->last = said;
        w->ended = true;
    } else if (got <= 0 && errno != EINTR) {
        close(w->pipe);
        w->pipe = -1;
    }
}

/* Whether the call in progress has exceeded its limit. */
static bool overdue(watch *w) {
    const unsigned long call = atomic_load(&w->note->calls);
    const uint64_t now = lab_clock_ns();
    const double seconds = atomic_load(&w->note->seconds);
    if (!atomic_load(&w->note->inside) || call != w->call) {
        w->call = call;
        w->since = now;
        return false;
    }
    return seconds > 0.0 && (double)(now - w->since) > 1e9 * seconds;
}

static bool gone(const watch *w, int *status) {
    return waitpid(w->child, status, WNOHANG) == w->child;
}

/* Ask the child to end, then kill it. */
static int end_child(watch *w) {
    int status;
    fprintf(stderr,
            "attest: the peer %s did not return from %s within %g s and is terminated "
            "(--peer-limit)\n",
            w->note->who, w->note->call, atomic_load(&w->note->seconds));
    kill(w->child, SIGTERM);
    for (int waited = 0; waited < GRACE_MS && !gone(w, &status); waited += LOOK_MS / 10)
        poll(NULL, 0, LOOK_MS / 10);
    kill(w->child, SIGKILL);
    waitpid(w->child, &status, 0);
    lab_atomic_remove_listed(w->files);
    return CLI_CHECK_FAILED;
}

/* Report who ended the program, and how. */
static int blame(const watch *w, bool crashed, const char *how) {
    const lab_peer_note *n = w->note;
    if (atomic_load(&n->inside))
        fprintf(stderr, "attest: the peer %s %s in %s: %s\n", n->who,
                crashed ? "crashed" : "ended the program", n->call, how);
    else
        fprintf(stderr,
                "attest: the program was terminated before it had finished: %s; the last peer "
                "called was %s\n",
                how, *n->who ? n->who : "none");
    return CLI_CHECK_FAILED;
}

/* It had finished when something else ended it in another way. */
static int blame_late(const watch *w) {
    fprintf(stderr,
            "attest: after the program had returned %d, a peer changed how it ended; the last "
            "peer called was %s\n",
            w->last.result, *w->note->who ? w->note->who : "none");
    return w->last.result ? w->last.result : CLI_CHECK_FAILED;
}

static bool is_of_a_user(int number) {
    return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGPIPE ||
           number == SIGQUIT;
}

/* Interpret how the child ended. */
static int judge(const watch *w, int status) {
    char how[32];
    if (w->ended)
        return WIFEXITED(status) && WEXITSTATUS(status) == w->last.result ? w->last.result
                                                                          : blame_late(w);
    if (atomic_load(&w->note->said))
        return CLI_CHECK_FAILED;
    if (WIFEXITED(status)) {
        snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(status));
        return blame(w, false, how);
    }
    const int number = WTERMSIG(status);
    if (is_of_a_user(number) || !atomic_load(&w->note->inside))
        return die_of(number);
    return blame(w, true, lab_peer_signal_name(number));
}

static int look_after(watch *w) {
    int status;
    take_signals(w->child);
    w->since = lab_clock_ns();
    while (!gone(w, &status)) {
        if (overdue(w))
            return end_child(w);
        hear(w, LOOK_MS);
    }
    if (!w->ended)
        hear(w, 0);
    lab_atomic_remove_listed(w->files);
    return judge(w, status);
}

/* Memory shared with the child. */
static void *share(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* A fork rather than lab_spawn(): the child continues in this program, with shared memory, and
 * prints directly. */
int cli_supervise(int argc, char **argv, int (*program)(int argc, char **argv)) {
    int ends[2];
    watch w = {
        .token = lab_entropy(), .note = share(sizeof *w.note), .files = share(sizeof *w.files)};
    w.child = w.note && w.files && pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (w.child < 0) {
        perror("attest: a process to run the peer in");
        return CLI_NOT_POSSIBLE;
    }
    if (w.child == 0) {
        close(ends[0]);
        return be_the_program(argc, argv, program, &w, ends[1]);
    }
    close(ends[1]);
    w.pipe = ends[0];
    return look_after(&w);
}
