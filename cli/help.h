/* help.h: the help text, made from the tables of verbs and options. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "cli/commands.h"

/* In short, for a command without a verb: the verbs, and three examples. */
void cli_help_usage(FILE *stream);

/* The letters and modifiers of a SHAPE. */
void cli_help_shapes(FILE *stream);

/* The program: its verbs, shapes, examples, exit codes. */
void cli_help_program(FILE *stream);

/* One verb: its options and examples. */
void cli_help_verb(FILE *stream, const cli_verb *verb);

#endif
