/* self_check.h: tests whether the measurement can be trusted: every problem against itself.
 *
 * --aa: two copies of every problem are rivals, interleaved; each verdict should be SAME. The
 * extent of their intervals gives the minimum effect. --inject P: one of the two makes P more
 * calls for every hundred counted, which is real work in the timed window; each verdict should
 * be SLOWER. */
#ifndef CLI_SELF_CHECK_H
#define CLI_SELF_CHECK_H

#include "cli/session.h"

/* Run the self-check that the options ask for. Exit code 1 if fewer than 95 of 100 verdicts are
 * right. */
cli_exit cli_self_check(cli_session *session);

#endif
