/* supervisor.h: the program in a child process, whose parent knows whether it came to its end.
 *
 * A plug-in has all rights of the process that it runs in: exit(0) in one ends it as if all had been well, a crash whose signal it ignores
 * ends it without a word, and one that never returns never ends it. The parent believes an exit code only where the program
 * itself sent it, and names the plug-in that was being called where it did not. */
#ifndef CLI_SUPERVISOR_H
#define CLI_SUPERVISOR_H

#include <stdbool.h>

/* Whether the command line names a plug-in. */
bool cli_wants_supervisor(int argc, char **argv);

/* Run `program` in a child and return what it returned, or 1. */
int cli_supervise(int argc, char **argv, int (*program)(int argc, char **argv));

#endif
