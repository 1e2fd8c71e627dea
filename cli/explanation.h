/* explanation.h: the library's explanation of a choice, as text for people. */
#ifndef CLI_EXPLANATION_H
#define CLI_EXPLANATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Print the lines of `text`, from att_context_explain(): the chosen kernel first, then those that
 * would serve too, then those that are refused. If many are, those that are refused for the same
 * reason share a line, unless `all`. */
void cli_put_explanation(FILE *stream, const char *text, bool all);

/* The family of a kernel by its id: "fwd_sm90_small" of fwd_sm90_small_f16_d64_m64n64s4w8, what
 * precedes type and head dimension in the ids of GPU kernels. On a CPU, where "bf16" in an id is an
 * instruction set, the whole id. */
void cli_kernel_family(char *buf, size_t n, const char *id);

#endif
