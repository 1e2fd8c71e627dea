/* help.c: prints the help. */
#include "cli/help.h"

static const char shape_help[] =
    "A SHAPE is letters and numbers, then modifiers after commas:\n"
    "  b2h8s512d64                    batch 2, 8 heads, 512 rows and keys, head dimension 64\n"
    "  b1h32hkv8s1sk4096d128,bf16     8 key/value heads, one row, 4096 keys, bfloat16\n"
    "  b1h4s128sk96d64,causal=bottom-right,window=16:0,softcap=30,lse\n"
    "Modifiers: fp16 bf16 f32 o=TYPE causal[=ALIGN] align=ALIGN window=L:R scale=X softcap=X\n"
    "  alibi sinks lse bias[=TYPE[:bhqk]] varlen lens=A:B:.. lensk[=A:B:..]\n"
    "  startsk[=A:B:..] qoffset=N koffset=N paged=N layout=bshd|bhsd|packed; attest(1) has them all.\n"
    "Gradients: a SHAPE after backward: and what is asked for beside those of Q, K and V:\n"
    "  backward:b2h8s512d64,bf16,causal,alibi,dalibi  grad=f32 dbias dsinks dalibi "
    "do=tiny|huge|zero\n"
    "Partial results to be merged, n of them, and their modifiers (suite merge):\n"
    "  merge:n4b2h8s512d64,bf16       fp16 bf16 f32 o=TYPE nolse layout=bshd|bhsd pad=N "
    "offset=N\n"
    "                                 absurd data=normal|empty|equal|inf|nan|huge\n"
    "Mixtures of experts: tokens, experts, experts of a token, hidden, inner (suites moe, "
    "moe_edge):\n"
    "  moe:t4096e128k8h2048i768,bf16  act=NAME gate=NAME transposed b1 b2 "
    "route=softmax|topk|sigmoid|given\n"
    "                                 nonorm scale=X correction groups=N:M mask range=A:N ids "
    "weights counts\n";

static void put_examples(FILE *stream, const cli_verb *verb) {
    for (const char *const *example = verb->examples; *example; example++)
        fprintf(stream, "  %s\n", *example);
}

void cli_help_program(FILE *stream) {
    fputs("attest: fused attention, proved and timed on this machine\n\n"
          "usage: attest VERB [ARGUMENTS] [OPTIONS]\n"
          "       attest help [VERB]\n"
          "       attest completions bash|zsh|fish\n"
          "       attest --version\n\nverbs:\n",
          stream);
    for (size_t i = 0; i < cli_verb_count; i++)
        fprintf(stream, "  %-8s %s\n", cli_verb_table[i].name, cli_verb_table[i].summary);
    fprintf(stream, "\n%s\nExamples:\n", shape_help);
    for (size_t i = 0; i < cli_verb_count; i++)
        fprintf(stream, "  %s\n", cli_verb_table[i].examples[0]);
    fputs("\nExit codes: 0 all holds, 1 a check failed, 2 a mistake in the command or its "
          "input,\n"
          "3 not possible on this machine, 130 interrupted: what is finished is kept.\n",
          stream);
}

static void put_option(FILE *stream, const cli_option *option) {
    char left[48];
    const char letter[] = {'-', option->letter, ',', ' ', '\0'};
    const char *value = option->value ? option->value : "";
    snprintf(left, sizeof left, "%s--%s%s%s", option->letter ? letter : "    ", option->name,
             *value && *value != '[' ? " " : "", value);
    fprintf(stream, "  %-26s %s\n", left, option->help);
}

void cli_help_verb(FILE *stream, const cli_verb *verb) {
    fprintf(stream, "attest %s: %s\n\nusage: attest %s%s%s [OPTIONS]\n\n%s\noptions:\n",
            verb->name, verb->summary, verb->name, *verb->arguments ? " " : "", verb->arguments,
            verb->detail);
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_option_table[i].verbs & verb->bit)
            put_option(stream, &cli_option_table[i]);
    if (verb->bit & (CLI_RUN | CLI_EXPLAIN | CLI_VERIFY | CLI_BENCH | CLI_PLAN | CLI_PROFILE |
                     CLI_ABLATE | CLI_TUNE | CLI_AUDIT))
        fprintf(stream, "\n%s", shape_help);
    fputs("\nExamples:\n", stream);
    put_examples(stream, verb);
}
