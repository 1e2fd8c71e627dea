/* explanation.c: sorts the lines of an explanation, and folds refusals. */
#include "cli/explanation.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "lab/base/screen.h"

/* Refusals are folded from this many on; the list and the reason of a fold begin at this column. */
enum { FOLD_FROM = 20, REASON_COLUMN = 30 };

void cli_kernel_family(char *buf, size_t n, const char *id) {
    snprintf(buf, n, "%s", id);
    char *word = strstr(buf, "_sm");
    while (word && (word = strchr(word + 1, '_')))
        if (strncmp(word, "_f16", 4) == 0 || strncmp(word, "_bf16", 5) == 0 ||
            strncmp(word, "_f32", 4) == 0 ||
            (word[1] == 'd' && isdigit((unsigned char)word[2]))) {
            *word = '\0';
            return;
        }
}

/* "refused  fwd_sm80_f16_d64_m64n64s2  cc: is not written for compute capability 9.0" */
typedef struct refusal {
    char family[64];
    const char *line, *reason; /* both up to the end of the line */
    size_t length, reason_length;
} refusal;

/* Find the next line that begins with `word`, and step over it. */
static bool next_line(const char **text, const char *word, const char **line, size_t *length) {
    while (**text) {
        *line = *text;
        *length = strcspn(*line, "\n");
        *text += *length + ((*line)[*length] == '\n');
        if (strncmp(*line, word, strlen(word)) == 0)
            return true;
    }
    return false;
}

static bool next_refusal(const char **text, refusal *r) {
    static const char word[] = "refused ";
    char id[sizeof r->family];
    if (!next_line(text, word, &r->line, &r->length))
        return false;
    const char *end = r->line + r->length, *at = r->line + sizeof word - 1;
    at += strspn(at, " ");
    const size_t id_length = strcspn(at, " \n");
    snprintf(id, sizeof id, "%.*s", (int)id_length, at);
    cli_kernel_family(r->family, sizeof r->family, id);
    at += id_length;
    r->reason = at + strspn(at, " ");
    r->reason_length = (size_t)(end - r->reason);
    return true;
}

static bool has_reason_of(const refusal *r, const refusal *other) {
    return r->reason_length == other->reason_length &&
           memcmp(r->reason, other->reason, r->reason_length) == 0;
}

/* "chosen   fwd_cpu_avx2         192 rows a task": where the id ends, and what follows begins. */
static size_t id_end(const char *line) {
    const size_t word = strcspn(line, " \n"), gap = strspn(line + word, " ");
    return word + gap + strcspn(line + word + gap, " \n");
}

static size_t rest_begin(const char *line) {
    const size_t end = id_end(line);
    return end + strspn(line + end, " ");
}

/* A column at which the rest of every line that begins with `word` can begin. */
static size_t rest_column(const char *text, const char *word, size_t column) {
    const char *line;
    for (size_t length; next_line(&text, word, &line, &length);)
        column = rest_begin(line) > column ? rest_begin(line) : column;
    return column;
}

static void put_line(FILE *stream, const char *line, size_t length, size_t column) {
    const size_t end = id_end(line), rest = rest_begin(line);
    fprintf(stream, "%-*.*s%.*s\n", (int)(column > end ? column : end + 1), (int)end, line,
            (int)(length - rest), line + rest);
}

static void put_lines(FILE *stream, const char *text, const char *word, size_t column) {
    const char *line;
    for (size_t length; next_line(&text, word, &line, &length);)
        put_line(stream, line, length, column);
}

/* Append ", NAME*" unless the list has it. */
static void add_family(char *list, size_t n, const char *family) {
    const size_t used = strlen(list), length = strlen(family);
    for (const char *found = list; (found = strstr(found, family)); found += length)
        if ((found == list || found[-1] == ' ') && found[length] == '*')
            return;
    snprintf(list + used, n - used, "%s%s*", used ? ", " : "", family);
}

/* Print the refusal and all later ones for the same reason. */
static void put_fold(FILE *stream, const refusal *first, const char *later, size_t column) {
    char families[1024] = "", line[2048];
    size_t count = 1;
    add_family(families, sizeof families, first->family);
    for (refusal r; next_refusal(&later, &r);)
        if (has_reason_of(&r, first)) {
            add_family(families, sizeof families, r.family);
            count++;
        }
    if (count == 1) {
        put_line(stream, first->line, first->length, column);
        return;
    }
    snprintf(line, sizeof line, "%.*s: %s", (int)first->reason_length, first->reason, families);
    const size_t width = lab_screen_width(stream);
    fprintf(stream, "refused  %3zu kernels%*s", count, REASON_COLUMN - 20, "");
    lab_put_wrapped(stream, line, REASON_COLUMN, width ? width : SIZE_MAX);
}

static void put_folded(FILE *stream, const char *text, size_t refused, size_t column) {
    refusal r, before;
    for (const char *at = text; next_refusal(&at, &r);) {
        const char *earlier = text;
        while (next_refusal(&earlier, &before) && before.line < r.line &&
               !has_reason_of(&before, &r)) {
        }
        if (before.line == r.line)
            put_fold(stream, &r, at, column);
    }
    fprintf(stream, "--all has a line for each of the %zu kernels that are refused\n", refused);
}

void cli_put_explanation(FILE *stream, const char *text, bool all) {
    size_t refused = 0;
    refusal r;
    for (const char *at = text; next_refusal(&at, &r);)
        refused++;
    const bool each = all || refused < FOLD_FROM;
    size_t column = rest_column(text, "passed ", rest_column(text, "chosen ", 0));
    if (each)
        column = rest_column(text, "refused ", column);
    put_lines(stream, text, "chosen ", column);
    put_lines(stream, text, "passed ", column);
    if (each)
        put_lines(stream, text, "refused ", column);
    else
        put_folded(stream, text, refused, column);
}
