/* completions.c: verbs and options come from the tables; suites are asked from the program when
 * needed. */
#include "cli/completions.h"

#include <string.h>

#include "cli/commands.h"
#include "lab/plan/plan_device.h"
#include "lab/report/standing.h"

static void put_verbs(FILE *stream) {
    for (size_t i = 0; i < cli_verb_count; i++)
        fprintf(stream, "%s ", cli_verb_table[i].name);
    fputs("help completions", stream);
}

static void put_options(FILE *stream, const cli_verb *verb) {
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_option_table[i].verbs & verb->bit)
            fprintf(stream, "--%s ", cli_option_table[i].name);
}

static void put_device(const char *name, void *stream) {
    fprintf(stream, " %s", name);
}

/* The GPUs that plan and explain know from device files. */
static void put_devices(FILE *stream) {
    lab_device_each(put_device, stream);
}

/* The values of options that have few. */
static const struct {
    const char *option, *values;
} choices[] = {
    {"isa", "portable avx2 avx512 avx512_bf16 amx neon auto"},
    {"dtype", "fp16 bf16 f32"},
    {"dtype-o", "fp16 bf16 f32"},
    {"layout", "bshd bhsd packed"},
    {"align", "top-left bottom-right"},
    {"timer", "graph events latency"},
    {"goals", lab_goals_names},
    {"format", "html md term"},
};
enum { CHOICES = sizeof choices / sizeof choices[0] };

static const char *choices_of(const char *option) {
    for (size_t i = 0; i < CHOICES; i++)
        if (strcmp(choices[i].option, option) == 0)
            return choices[i].values;
    return NULL;
}

static void put_bash(FILE *stream) {
    fputs("_attest() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
          "    COMPREPLY=()\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        words='",
          stream);
    put_verbs(stream);
    fputs("'\n"
          "    elif [[ $before == --suite ]]; then\n"
          "        words=$(attest suites 2>/dev/null | awk 'NR > 2 && NF { print $1 }')\n"
          "    elif [[ $before == --device ]]; then\n"
          "        words='cpu cuda virtual'\n"
          "        case ${COMP_WORDS[1]} in plan | explain) words+='",
          stream);
    put_devices(stream);
    fputs("' ;; esac\n", stream);
    for (size_t i = 0; i < CHOICES; i++)
        fprintf(stream, "    elif [[ $before == --%s ]]; then\n        words='%s'\n",
                choices[i].option, choices[i].values);
    fputs("    elif [[ $before == completions ]]; then\n"
          "        words='bash zsh fish'\n"
          "    elif [[ $word == -* ]]; then\n"
          "        case ${COMP_WORDS[1]} in\n",
          stream);
    for (size_t i = 0; i < cli_verb_count; i++) {
        fprintf(stream, "        %s) words='", cli_verb_table[i].name);
        put_options(stream, &cli_verb_table[i]);
        fputs("' ;;\n", stream);
    }
    fputs("        esac\n"
          "    elif [[ ${COMP_WORDS[1]} == help ]]; then\n"
          "        words='",
          stream);
    put_verbs(stream);
    fputs(" shapes'\n"
          "    fi\n"
          "    if [[ -n $words ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "    else\n"
          "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
          "    fi\n"
          "}\n"
          "complete -o filenames -F _attest attest\n",
          stream);
}

/* zsh uses bash's script. Where zsh loads the file by itself, the first completion runs it as a
 * function, which must then answer too. */
static void put_zsh(FILE *stream) {
    fputs("#compdef attest\nautoload -U +X bashcompinit && bashcompinit\n", stream);
    put_bash(stream);
    fputs("if [[ ${funcstack[1]} == _attest ]]; then\n"
          "    _bash_complete -o filenames -F _attest\n"
          "fi\n",
          stream);
}

/* A text in single quotes, as fish reads it. */
static void put_quoted(FILE *stream, const char *text) {
    fputc('\'', stream);
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            fputc('\\', stream);
        fputc(*text, stream);
    }
    fputc('\'', stream);
}

static void put_fish(FILE *stream) {
    for (size_t i = 0; i < cli_verb_count; i++) {
        const cli_verb *verb = &cli_verb_table[i];
        fprintf(stream, "complete -c attest -n __fish_use_subcommand -f -a %s -d ", verb->name);
        put_quoted(stream, verb->summary);
        fputc('\n', stream);
        for (size_t n = 0; n < cli_option_count; n++) {
            const cli_option *option = &cli_option_table[n];
            if (!(option->verbs & verb->bit))
                continue;
            fprintf(stream, "complete -c attest -n '__fish_seen_subcommand_from %s' -l %s",
                    verb->name, option->name);
            if (option->letter)
                fprintf(stream, " -s %c", option->letter);
            if (strcmp(option->name, "suite") == 0)
                fputs(" -x -a \"(attest suites 2>/dev/null | awk 'NR > 2 && NF { print \\$1 "
                      "}')\"",
                      stream);
            else if (strcmp(option->name, "device") == 0) {
                fputs(" -x -a 'cpu cuda virtual", stream);
                if (verb->bit & (CLI_PLAN | CLI_EXPLAIN))
                    put_devices(stream);
                fputc('\'', stream);
            } else if (choices_of(option->name))
                fprintf(stream, " -x -a '%s'", choices_of(option->name));
            else if (option->value && *option->value != '[')
                fputs(" -r", stream);
            fputs(" -d ", stream);
            put_quoted(stream, option->help);
            fputc('\n', stream);
        }
    }
}

bool cli_completions(FILE *stream, const char *shell) {
    static const struct {
        const char *shell;
        void (*put)(FILE *stream);
    } scripts[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        if (shell && strcmp(shell, scripts[i].shell) == 0) {
            scripts[i].put(stream);
            return true;
        }
    return false;
}
