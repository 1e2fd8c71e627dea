/* completions.h: shell completion scripts, made from the tables of verbs and options. */
#ifndef CLI_COMPLETIONS_H
#define CLI_COMPLETIONS_H

#include <stdbool.h>
#include <stdio.h>

/* Prints the script for "bash", "zsh" or "fish". False for another shell. */
bool cli_completions(FILE *stream, const char *shell);

#endif
