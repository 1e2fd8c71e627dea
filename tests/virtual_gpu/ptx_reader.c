/* ptx_reader.c: parses the text of an asm statement and finds its instructions in the
 * tables. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/ptx.h"
#include "tests/virtual_gpu/checks.h"

enum { NAME_MAX_BYTES = 128, NAMES_MAX = 64, CODE_MAX = 256, WORDS_MAX = 192 };

typedef struct name_number {
    char name[NAME_MAX_BYTES];
    int number;
} name_number;

typedef struct reader {
    const vgpu_asm *statement;
    const char *at;
    ptx_kind operands[PTX_OPERANDS];
    int operands_count;
    name_number names[NAMES_MAX]; /* registers visible here */
    int names_count, registers;
    int scopes[NAMES_MAX]; /* names_count before each '{' */
    int scopes_count;
    name_number labels[NAMES_MAX], jumps[NAMES_MAX]; /* a label; a branch to it */
    int labels_count, jumps_count;
    ptx_instruction code[CODE_MAX];
    int count;
    ptx_word words[WORDS_MAX]; /* of the instruction that is read */
    int words_count;
} reader;

static const ptx_row *const tables[] = {
    ptx_arithmetic,    ptx_integers,    ptx_memory,   ptx_atomics,
    ptx_copies,        ptx_matrices,    ptx_products, ptx_barriers,
    ptx_tensor_copies, ptx_bulk_copies, ptx_control,  ptx_store_async,
};

_Noreturn static void fail_at(const reader *r, const char *problem, const char *text) {
    vgpu_fail(CHECK_INSTRUCTION, "the asm statement at %s:%d: %s %.80s", r->statement->file,
              r->statement->line, problem, text);
}

/* Programs are kept until the end, in a list, so that leak checkers find them. */
static void *keep(const void *data, size_t bytes) {
    static struct kept {
        struct kept *next;
        uint64_t data[];
    } * all;
    struct kept *kept = allocate(sizeof *kept + bytes);
    kept->next = all;
    all = kept;
    memcpy(kept->data, data, bytes);
    return kept->data;
}

/* ---- names of instructions ---- */

static bool matches(const char *pattern, const char *name, ptx_instruction *out, int group);

/* `pattern` points after a '('. */
static bool matches_group(const char *pattern, const char *name, ptx_instruction *out,
                          int group) {
    const char *rest = strchr(pattern, ')') + 1;
    for (uint8_t which = 0;; which++) {
        const size_t bytes = strcspn(pattern, "|)");
        if (strncmp(pattern, name, bytes) == 0 && matches(rest, name + bytes, out, group + 1)) {
            out->choice[group] = which;
            return true;
        }
        if (pattern[bytes] == ')')
            return false;
        pattern += bytes + 1;
    }
}

static bool matches(const char *pattern, const char *name, ptx_instruction *out, int group) {
    for (; *pattern; pattern++) {
        if (*pattern == '(')
            return matches_group(pattern + 1, name, out, group);
        if (*pattern != '#') {
            if (*pattern != *name++)
                return false;
            continue;
        }
        if (!isdigit((unsigned char)*name))
            return false;
        char *end;
        out->number = (int)strtol(name, &end, 10);
        name = end;
    }
    return *name == '\0';
}

/* Cache hints change nothing here. True: the last operand is a policy. */
static bool drop_cache_words(char *name) {
    static const char *const words[] = {
        ".L1::evict_normal", ".L1::evict_unchanged", ".L1::evict_first", ".L1::evict_last",
        ".L1::no_allocate",  ".L2::cache_hint",      ".L2::64B",         ".L2::128B",
        ".L2::256B",
    };
    static const char *const of[] = {"ld.", "st.", "cp.", "red.", "atom."};
    bool moves_data = false, has_policy = false;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        moves_data = moves_data || strncmp(name, of[i], strlen(of[i])) == 0;
    for (size_t i = 0; moves_data && i < sizeof words / sizeof *words; i++) {
        char *found = strstr(name, words[i]);
        if (!found)
            continue;
        has_policy = has_policy || strcmp(words[i], ".L2::cache_hint") == 0;
        memmove(found, found + strlen(words[i]), strlen(found + strlen(words[i])) + 1);
    }
    return has_policy;
}

static void find_row(reader *r, ptx_instruction *out) {
    char name[NAME_MAX_BYTES];
    memcpy(name, out->name, strlen(out->name) + 1);
    if (drop_cache_words(name) && r->words_count > 0)
        r->words_count--;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const ptx_row *row = tables[t]; row->name; row++) {
            if (!matches(row->name, name, out, 0))
                continue;
            if (r->words_count < row->least || r->words_count > row->most)
                fail_at(r, "an unknown number of operands:", out->name);
            out->run = row->run;
            out->option = row->option;
            return;
        }
    fail_at(r, "the virtual GPU does not know", out->name);
}

/* ---- text ---- */

static void skip_blank(reader *r) {
    for (;;) {
        if (isspace((unsigned char)*r->at)) {
            r->at++;
        } else if (r->at[0] == '/' && r->at[1] == '/') {
            r->at += strcspn(r->at, "\n");
        } else if (r->at[0] == '/' && r->at[1] == '*') {
            const char *end = strstr(r->at + 2, "*/");
            if (!end)
                fail_at(r, "a comment without an end", r->at);
            r->at = end + 2;
        } else {
            return;
        }
    }
}

static bool take(reader *r, char c) {
    skip_blank(r);
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static bool is_name_char(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$' || c == '%';
}

/* A name; with `colons`, of an instruction: "::" is part of it. */
static void take_name(reader *r, char *name, bool colons) {
    skip_blank(r);
    size_t used = 0;
    for (;;) {
        const bool two = colons && r->at[0] == ':' && r->at[1] == ':';
        if (!two && !is_name_char(*r->at))
            break;
        if (used + 3 > NAME_MAX_BYTES)
            fail_at(r, "a name that is too long:", name);
        name[used++] = *r->at++;
        if (two)
            name[used++] = *r->at++;
    }
    name[used] = '\0';
    if (used == 0)
        fail_at(r, "not understood:", r->at);
}

static void add_name(reader *r, name_number *names, int *count, const char *name, int number) {
    if (*count == NAMES_MAX)
        fail_at(r, "too many names:", name);
    memcpy(names[*count].name, name, strlen(name) + 1);
    names[(*count)++].number = number;
}

/* The latest of that name; -1: none. */
static int find_name(const name_number *names, int count, const char *name) {
    while (count-- > 0)
        if (strcmp(names[count].name, name) == 0)
            return names[count].number;
    return -1;
}

static void add_register(reader *r, const char *name) {
    if (r->registers == PTX_REGISTERS)
        fail_at(r, "too many registers:", name);
    add_name(r, r->names, &r->names_count, name, r->registers++);
}

/* .reg .b32 a, b<4>; */
static void read_registers(reader *r) {
    char name[NAME_MAX_BYTES], numbered[NAME_MAX_BYTES + 16];
    take_name(r, name, false); /* the type */
    do {
        take_name(r, name, false);
        if (!take(r, '<')) {
            add_register(r, name);
            continue;
        }
        char *end;
        const long count = strtol(r->at, &end, 10);
        r->at = end;
        if (!take(r, '>') || count < 1 || count > PTX_REGISTERS ||
            strlen(name) > NAME_MAX_BYTES - 8)
            fail_at(r, "registers not understood:", name);
        for (long i = 0; i < count; i++) {
            snprintf(numbered, sizeof numbered, "%s%ld", name, i);
            add_register(r, numbered);
        }
    } while (take(r, ','));
    if (!take(r, ';'))
        fail_at(r, "no ';' behind registers at", r->at);
}

/* ---- operands ---- */

/* 12, -1, 0x1f, 1.5, 0f3F800000 */
static void read_number(reader *r, ptx_word *word) {
    char *end;
    word->kind = PTX_NUMBER;
    const size_t bytes = strspn(r->at, "+-.0123456789abcdefABCDEFxX");
    if (r->at[0] == '0' && (r->at[1] == 'f' || r->at[1] == 'F') && bytes == 10) {
        word->bits = strtoull(r->at + 2, &end, 16);
    } else if (memchr(r->at, '.', bytes)) {
        word->bits = att_f32_bits(strtof(r->at, &end));
    } else if (r->at[0] == '-') {
        word->bits = (uint64_t)strtoll(r->at, &end, 0);
    } else {
        word->bits = strtoull(r->at, &end, 0);
        end += *end == 'U';
    }
    if (end == r->at)
        fail_at(r, "a number not understood:", r->at);
    r->at = end;
}

static void read_operand(reader *r, ptx_word *word, const char *name) {
    const char *text = name + strspn(name, "%");
    if (isdigit((unsigned char)*text)) {
        const int number = atoi(text);
        if (number >= r->operands_count)
            fail_at(r, "no such operand:", name);
        word->kind = r->operands[number];
        word->number = number;
        return;
    }
    word->kind = PTX_SPECIAL;
    word->number = ptx_special_of(text);
    if (word->number < 0)
        fail_at(r, "the virtual GPU does not know the register", name);
}

static void read_named(reader *r, ptx_word *word) {
    char name[NAME_MAX_BYTES];
    const bool is_not = take(r, '!');
    take_name(r, name, false);
    const int number = find_name(r->names, r->names_count, name);
    if (number >= 0) {
        word->kind = is_not ? PTX_NOT_REGISTER : PTX_REGISTER;
        word->number = number;
    } else if (is_not) {
        fail_at(r, "no such register:", name);
    } else if (strcmp(name, "_") == 0) {
        word->kind = PTX_SINK;
    } else if (name[0] == '%') {
        read_operand(r, word, name);
    } else {
        fail_at(r, "no such register:", name);
    }
}

static void read_word(reader *r, bool in_braces, bool in_brackets) {
    if (r->words_count == WORDS_MAX)
        fail_at(r, "too many operands at", r->at);
    ptx_word *word = &r->words[r->words_count++];
    *word = (ptx_word){.in_braces = in_braces, .in_brackets = in_brackets};
    skip_blank(r);
    const bool is_number =
        isdigit((unsigned char)*r->at) || (*r->at == '-' && isdigit((unsigned char)r->at[1]));
    if (is_number)
        read_number(r, word);
    else
        read_named(r, word);
    skip_blank(r);
    if (in_brackets && (*r->at == '+' || *r->at == '-')) {
        char *end;
        const char sign = *r->at++;
        skip_blank(r);
        const long offset = strtol(r->at, &end, 0);
        if (end == r->at)
            fail_at(r, "an offset not understood:", r->at);
        r->at = end;
        word->offset = (int)(sign == '-' ? -offset : offset);
    }
}

/* Everything up to ';'. Braces and brackets only mark the words in them. */
static void read_words(reader *r) {
    int braces = 0, brackets = 0;
    r->words_count = 0;
    while (!take(r, ';')) {
        if (*r->at == '\0')
            fail_at(r, "no ';' at the end of", r->statement->ptx);
        else if (take(r, '{'))
            braces++;
        else if (take(r, '}'))
            braces--;
        else if (take(r, '['))
            brackets++;
        else if (take(r, ']'))
            brackets--;
        else if (!take(r, ',') && !take(r, '|'))
            read_word(r, braces > 0, brackets > 0);
        if (braces < 0 || brackets < 0)
            fail_at(r, "not understood:", r->at);
    }
    if (braces || brackets)
        fail_at(r, "a bracket is left open before", r->at);
}

/* ---- statements ---- */

static void read_guard(reader *r, ptx_instruction *out) {
    char name[NAME_MAX_BYTES];
    out->guard_not = take(r, '!');
    take_name(r, name, false);
    out->guard = find_name(r->names, r->names_count, name);
    if (out->guard < 0)
        fail_at(r, "no such register:", name);
}

static bool is_branch(const char *name) {
    return strcmp(name, "bra") == 0 || strcmp(name, "bra.uni") == 0;
}

static void read_instruction(reader *r, ptx_instruction *out, const char *name) {
    out->name = keep(name, strlen(name) + 1);
    if (is_branch(name)) {
        char label[NAME_MAX_BYTES];
        take_name(r, label, false);
        add_name(r, r->jumps, &r->jumps_count, label, r->count);
        if (!take(r, ';'))
            fail_at(r, "no ';' behind a branch at", r->at);
    } else {
        read_words(r);
        find_row(r, out);
        out->count = r->words_count;
        out->words = keep(r->words, (size_t)r->words_count * sizeof *r->words);
    }
    r->count++;
}

static void close_scope(reader *r) {
    if (r->scopes_count == 0)
        fail_at(r, "a '}' too many before", r->at);
    r->names_count = r->scopes[--r->scopes_count];
}

static void open_scope(reader *r) {
    if (r->scopes_count == NAMES_MAX)
        fail_at(r, "too many '{' at", r->at);
    r->scopes[r->scopes_count++] = r->names_count;
}

static void read_statement(reader *r) {
    char name[NAME_MAX_BYTES];
    ptx_instruction *out = &r->code[r->count];
    *out = (ptx_instruction){.guard = -1};
    if (take(r, '{')) {
        open_scope(r);
        return;
    }
    if (take(r, '}')) {
        close_scope(r);
        return;
    }
    if (take(r, ';'))
        return;
    if (take(r, '@'))
        read_guard(r, out);
    take_name(r, name, true);
    if (strcmp(name, ".reg") == 0)
        read_registers(r);
    else if (take(r, ':'))
        add_name(r, r->labels, &r->labels_count, name, r->count);
    else
        read_instruction(r, out, name);
}

static void read_constraints(reader *r) {
    for (const char *c = r->statement->constraints; *c;) {
        const size_t bytes = strcspn(c, " ");
        if (r->operands_count == PTX_OPERANDS)
            fail_at(r, "too many operands:", c);
        if (bytes > 0) {
            const bool is_place = *c == '=' || *c == '+';
            const char type = c[bytes - 1];
            r->operands[r->operands_count++] = !is_place                    ? PTX_VALUE
                                               : type == 'l' || type == 'd' ? PTX_PLACE_64
                                               : type == 'h'                ? PTX_PLACE_16
                                                                            : PTX_PLACE_32;
        }
        c += bytes + strspn(c + bytes, " ");
    }
}

ptx_program *ptx_read(const vgpu_asm *statement) {
    static reader one; /* a failure leaves it as it is */
    reader *r = &one;
    memset(r, 0, sizeof *r);
    r->statement = statement;
    r->at = statement->ptx;
    read_constraints(r);
    for (skip_blank(r); *r->at; skip_blank(r)) {
        if (r->count == CODE_MAX)
            fail_at(r, "too long:", r->at);
        read_statement(r);
    }
    if (r->scopes_count > 0)
        fail_at(r, "no '}' at the end of", statement->ptx);
    for (int i = 0; i < r->jumps_count; i++) {
        const int target = find_name(r->labels, r->labels_count, r->jumps[i].name);
        if (target < 0)
            fail_at(r, "no such label:", r->jumps[i].name);
        r->code[r->jumps[i].number].target = target;
    }
    const ptx_program program = {keep(r->code, (size_t)r->count * sizeof *r->code), r->count,
                                 r->registers};
    return keep(&program, sizeof program);
}
