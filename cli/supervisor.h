/* supervisor.h: runs the program in a child process, so that the parent knows whether it
 * finished.
 *
 * A plug-in has all rights of its process: exit(0) in a plug-in ends the process as if all were
 * well, a crash whose signal it ignores ends it silently, and a call that never returns hangs
 * it. The parent trusts an exit code only if the program itself sent it; otherwise it names the
 * plug-in that was being called. */
#ifndef CLI_SUPERVISOR_H
#define CLI_SUPERVISOR_H

#include <stdbool.h>

/* Whether the command line names a plug-in. */
bool cli_wants_supervisor(int argc, char **argv);

/* Run `program` in a child and return its result, or 1. */
int cli_supervise(int argc, char **argv, int (*program)(int argc, char **argv));

#endif
