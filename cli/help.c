/* help.c: prints the help. */
#include "cli/help.h"

#include "lab/base/screen.h"

/* Lines of help are no longer than this, on any terminal. */
enum { HELP_COLUMNS = 96, OPTION_COLUMN = 29 };

static const char shape_help[] =
    "A SHAPE is letters with numbers, then modifiers after commas:\n"
    "  b2h8s512d64                    batch 2, 8 heads, 512 rows and keys, head dimension 64\n"
    "  b1h32hkv8s1sk4096d128,bf16     8 key/value heads, one row, 4096 keys, bfloat16\n"
    "  b1h4s128sk96d64,causal=bottom-right,window=16:0,softcap=30,lse\n"
    "Modifiers; attest(1) lists them all:\n"
    "  fp16 bf16 f32 o=TYPE           types of Q, K and V (fp16), and of O (the same)\n"
    "  causal[=ALIGN] window=L:R      masks; ALIGN: top-left or bottom-right\n"
    "  align=ALIGN                    the diagonal of window and alibi without causal\n"
    "  qoffset=N koffset=N            a shard of a longer sequence: row i is at position N + "
    "i\n"
    "                                 of it, key j at N + j, for causal, window and alibi\n"
    "  scale=X softcap=X alibi sinks bias[=TYPE[:bhqk]]   scores\n"
    "  varlen lens=A:B:.. lensk[=A:B:..] startsk[=A:B:..] paged=N   lengths and caches\n"
    "  lse layout=bshd|bhsd|packed    the log-sum-exp as an output; order of dimensions\n"
    "Gradients of Q, K and V, and others on request:\n"
    "  backward:b2h8s512d64,bf16,causal,alibi,dalibi\n"
    "                                 grad=f32 dbias dsinks dalibi do=tiny|huge|zero\n"
    "Merging n partial results:\n"
    "  merge:n4b2h8s512d64,bf16       fp16 bf16 f32 o=TYPE nolse layout=bshd|bhsd pad=N\n"
    "                                 offset=N absurd data=normal|empty|equal|inf|nan|huge\n"
    "Mixtures of experts: tokens, experts, experts per token, hidden, inner:\n"
    "  moe:t4096e128k8h2048i768,bf16  act=NAME gate=NAME transposed b1 b2 nonorm scale=X\n"
    "                                 route=softmax|topk|sigmoid|given correction groups=N:M\n"
    "                                 mask range=A:N ids weights counts\n";

static size_t help_columns(FILE *stream) {
    const size_t columns = lab_screen_columns(stream, HELP_COLUMNS);
    return columns < HELP_COLUMNS ? columns : HELP_COLUMNS;
}

static void put_examples(FILE *stream, const cli_verb *verb) {
    for (const char *const *example = verb->examples; *example; example++)
        fprintf(stream, "  %s\n", *example);
}

static void put_verbs(FILE *stream) {
    fputs("attest: fused attention that is verified, timed and explained on this machine\n\n"
          "usage: attest VERB [ARGUMENTS] [OPTIONS]\n"
          "       attest help [VERB | shapes]\n"
          "       attest completions bash|zsh|fish\n"
          "       attest --version\n\nverbs:\n",
          stream);
    for (size_t i = 0; i < cli_verb_count; i++)
        fprintf(stream, "  %-8s %s\n", cli_verb_table[i].name, cli_verb_table[i].summary);
}

void cli_help_usage(FILE *stream) {
    put_verbs(stream);
    fputs(
        "\nExamples:\n"
        "  attest doctor\n"
        "  attest verify b2h8s512d64,bf16,causal\n"
        "  attest bench b2h8s512d64,bf16,causal --json result.json\n"
        "\n'attest help shapes' describes words like b2h8s512d64, 'attest help VERB' a verb.\n",
        stream);
}

void cli_help_shapes(FILE *stream) {
    fputs(shape_help, stream);
}

void cli_help_program(FILE *stream) {
    put_verbs(stream);
    fprintf(stream, "\n%s\nExamples:\n", shape_help);
    for (size_t i = 0; i < cli_verb_count; i++)
        fprintf(stream, "  %s\n", cli_verb_table[i].examples[0]);
    fputs(
        "\nExit codes: 0 success, 1 a check failed, 2 a mistake in the command or its input,\n"
        "3 not possible on this machine, 130 interrupted (finished work is kept).\n",
        stream);
}

static void put_option(FILE *stream, const cli_option *option) {
    char left[48];
    const char letter[] = {'-', option->letter, ',', ' ', '\0'};
    const char *value = option->value ? option->value : "";
    snprintf(left, sizeof left, "%s--%s%s%s", option->letter ? letter : "    ", option->name,
             *value && *value != '[' ? " " : "", value);
    fprintf(stream, "  %-26s ", left);
    lab_put_wrapped(stream, option->help, OPTION_COLUMN, help_columns(stream));
}

void cli_help_verb(FILE *stream, const cli_verb *verb) {
    fprintf(stream, "attest %s: %s\n\nusage: attest %s%s%s [OPTIONS]\n\n", verb->name,
            verb->summary, verb->name, *verb->arguments ? " " : "", verb->arguments);
    lab_put_wrapped(stream, verb->detail, 0, help_columns(stream));
    fputs("\noptions:\n", stream);
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_option_table[i].verbs & verb->bit)
            put_option(stream, &cli_option_table[i]);
    if (verb->bit & (CLI_RUN | CLI_EXPLAIN | CLI_VERIFY | CLI_BENCH | CLI_PLAN | CLI_PROFILE |
                     CLI_ABLATE | CLI_TUNE | CLI_AUDIT))
        fprintf(stream, "\n%s", shape_help);
    fputs("\nExamples:\n", stream);
    put_examples(stream, verb);
}
