/* rewrite.c: preprocessed CUDA C on stdin becomes C++ for the host on stdout.
 *
 * Two things of CUDA C cannot be given a meaning by a header: asm statements, whose text is PTX, and __shared__ variables. An asm
 * statement becomes a call of vgpu_run_asm() (abi.h). Dynamic shared memory becomes what vgpu_dynamic_shared() gives, a variable
 * of static shared memory one in the section "vgpu_shared". All else is copied, and stays on its line of its file. */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    const char *at;
    size_t length;
} text;

enum { SCOPES_MAX = 1024, OPERANDS_MAX = 256 };

static char *source;      /* all of stdin, with a 0 behind it */
static const char *place; /* up to here `file` and `line` are known */
static char file[4096] = "stdin";
static int line = 1;
static bool is_block[SCOPES_MAX]; /* of every '{' that is open: not of extern "C" */
static int scopes;

static void copy(text t) {
    fwrite(t.at, 1, t.length, stdout);
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static bool is_one_of(text t, const char *const *words) {
    for (; *words; words++)
        if (strlen(*words) == t.length && memcmp(*words, t.at, t.length) == 0)
            return true;
    return false;
}

static bool is(text t, const char *word) {
    return is_one_of(t, (const char *const[]){word, NULL});
}

/* # 12 "kernels/mma.cuh" 1: the line that follows. */
static void read_marker(const char *at) {
    char *end;
    const long number = strtol(at, &end, 10);
    if (end == at)
        return;
    line = (int)number - 1; /* its own end is counted too */
    const char *name = strchr(end, '"'), *stop = name ? strchr(name + 1, '"') : NULL;
    const char *newline = strchr(end, '\n');
    if (!stop || (newline && stop > newline))
        return;
    name += strncmp(name + 1, "./", 2) == 0 ? 3 : 1;
    snprintf(file, sizeof file, "%.*s", (int)(stop - name), name);
}

/* Follow file and line up to `end`. */
static void follow(const char *end) {
    for (; place < end; place++) {
        if (*place == '#' && (place == source || place[-1] == '\n'))
            read_marker(place + 1 + strspn(place + 1, " "));
        line += *place == '\n';
    }
}

static _Noreturn void fail(const char *at, const char *format, ...) {
    follow(at);
    fprintf(stderr, "%s:%d: error: ", file, line);
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    exit(1);
}

/* Past the string or character that begins here. */
static const char *skip_quoted(const char *at) {
    const char quote = *at, *start = at;
    for (at++; *at != quote; at++) {
        at += *at == '\\' && at[1];
        if (!*at || *at == '\n')
            fail(start, "a %c without its end", quote);
    }
    return at + 1;
}

/* Is this the first letter of a line that the preprocessor wrote? */
static bool is_directive(const char *at) {
    return *at == '#' && (at == source || at[-1] == '\n');
}

static const char *skip_space(const char *at) {
    for (;; at++) {
        if (is_directive(at))
            at += strcspn(at, "\n");
        if (!isspace((unsigned char)*at))
            return at;
    }
}

static text word_at(const char *at) {
    size_t length = 0;
    while (is_word(at[length]))
        length++;
    return (text){at, length};
}

/* Past one thing: a quoted text, a word, or a letter. */
static const char *skip_one(const char *at) {
    if (*at == '"' || *at == '\'')
        return skip_quoted(at);
    const size_t length = word_at(at).length;
    return at + (length ? length : 1);
}

/* The next of `letters` that is outside of parentheses, braces and brackets that open after `at`; a letter that closes
 * more than was opened counts as outside. */
static const char *find_outside(const char *at, const char *letters) {
    const char *start = at;
    int depth = 0;
    for (; *at; at = skip_one(at)) {
        at = skip_space(at);
        if (depth == 0 && *at && strchr(letters, *at))
            return at;
        depth += *at && strchr("([{", *at) ? 1 : 0;
        depth -= *at && strchr(")]}", *at) ? 1 : 0;
        if (depth < 0 || !*at)
            break;
    }
    fail(start, "no \"%s\" before the end, or parentheses that do not match", letters);
}

/* Print `t` on one line, without what the preprocessor wrote between its lines. */
static void copy_flat(text t) {
    for (const char *at = t.at, *end = t.at + t.length, *next; at < end; at = next) {
        next = skip_space(at);
        if (next > at) {
            putchar(' ');
            continue;
        }
        next = skip_one(at);
        copy((text){at, (size_t)(next - at)});
    }
}

static text trim(const char *begin, const char *end) {
    begin = skip_space(begin);
    while (end > begin && isspace((unsigned char)end[-1]))
        end--;
    return (text){begin, end > begin ? (size_t)(end - begin) : 0};
}

/* A text that consists of empty strings alone. */
static bool is_empty_string(text t) {
    for (size_t i = 0; i < t.length; i++)
        if (t.at[i] != '"' && !isspace((unsigned char)t.at[i]))
            return false;
    return true;
}

typedef struct operand {
    bool written;
    char type;
    text constraint, value;
} operand;

typedef struct statement {
    text ptx;
    operand operands[OPERANDS_MAX];
    int count;
} statement;

/* "=r"(x), with a name in brackets perhaps ahead of it. */
static void read_operand(statement *s, text t, bool outputs) {
    if (s->count == OPERANDS_MAX)
        fail(t.at, "an asm statement with more than %d operands", OPERANDS_MAX);
    if (*t.at != '"')
        fail(t.at, "an operand of asm that does not begin with its constraint");
    const char *end = skip_quoted(t.at);
    operand *o = &s->operands[s->count++];
    o->constraint = (text){t.at + 1, (size_t)(end - t.at) - 2};
    o->value = trim(end, t.at + t.length);
    o->written = o->constraint.length > 0 && strchr("=+", *o->constraint.at);
    const text type = {o->constraint.at + o->written, o->constraint.length - o->written};
    const bool known = type.length == 1 && strchr(outputs ? "hrlfd" : "hrlfdn", *type.at);
    if (!known || o->written != outputs)
        fail(t.at, "unknown constraint \"%.*s\" of an %s of asm", (int)o->constraint.length,
             o->constraint.at, outputs ? "output" : "input");
    o->type = *type.at;
    if (o->value.length < 2 || *o->value.at != '(')
        fail(t.at, "an operand of asm without a value");
}

/* Operands up to the ':' or ')' that ends their list, which is given. */
static const char *read_operands(statement *s, const char *at, bool outputs) {
    for (;;) {
        const char *end = find_outside(at, ",:)");
        const text t = trim(at, end);
        if (t.length > 0)
            read_operand(s, t, outputs);
        if (*end != ',')
            return end;
        at = end + 1;
    }
}

/* From behind the '('; past the ')' is given. */
static const char *read_statement(statement *s, const char *at) {
    const char *end = find_outside(at, ":)");
    s->ptx = trim(at, end);
    if (*s->ptx.at != '"')
        fail(at, "an asm statement that does not begin with a string");
    for (int list = 0; *end == ':'; list++)
        end = list < 2 ? read_operands(s, end + 1, list == 0) : find_outside(end + 1, ":)");
    return end + 1;
}

static void print_statement(const statement *s) {
    if (is_empty_string(s->ptx)) {
        fputs("__asm__ __volatile__(\"\" ::: \"memory\")", stdout);
        return;
    }
    fputs("do { static vgpu_asm vgpu_statement = {", stdout);
    copy_flat(s->ptx);
    fputs(", \"", stdout);
    for (int i = 0; i < s->count; i++) {
        fputs(i ? " " : "", stdout);
        copy(s->operands[i].constraint);
    }
    printf("\", \"%s\", %d, 0}; const uint64_t vgpu_operands[] = {", file, line);
    for (int i = 0; i < s->count; i++) {
        printf("%svgpu_%s_%c", i ? ", " : "", s->operands[i].written ? "out" : "in",
               s->operands[i].type);
        copy_flat(s->operands[i].value);
    }
    fputs(s->count ? "" : "0", stdout);
    fputs("}; vgpu_run_asm(&vgpu_statement, vgpu_operands); } while (0)", stdout);
}

/* What was left out had lines: the next one is where it was. */
static void catch_up(const char *from, const char *to) {
    bool moved = false;
    int lines = 0;
    for (const char *at = from; at < to; at++) {
        lines += *at == '\n';
        moved = moved || is_directive(at);
    }
    follow(to);
    if (moved) {
        printf("\n# %d \"%s\"\n", line, file);
        return;
    }
    while (lines-- > 0)
        putchar('\n');
}

/* Space and what the preprocessor wrote. Files are named from the folder of the sources: "./" is left out. */
static void copy_space(const char *at, const char *end) {
    while (at < end) {
        putchar(*at);
        at += *at == '"' && strncmp(at + 1, "./", 2) == 0 ? 3 : 1;
    }
}

/* asm [volatile] (...): past it, or NULL where it is none. */
static const char *rewrite_asm(text first) {
    static const char *const names[] = {"asm", "__asm", "__asm__", NULL};
    static const char *const qualifiers[] = {"volatile", "__volatile__", NULL};
    if (!is_one_of(first, names))
        return NULL;
    const char *at = skip_space(first.at + first.length);
    for (text next = word_at(at); is_one_of(next, qualifiers); next = word_at(at))
        at = skip_space(at + next.length);
    if (*at != '(')
        fail(first.at, "asm without its parentheses");
    follow(first.at);
    statement s = {.count = 0};
    const char *end = read_statement(&s, at + 1);
    print_statement(&s);
    catch_up(first.at, end);
    return end;
}

/* [__align__(n)] T name[]; of which `at` is the first letter, of a declaration that begins at `start`. */
static const char *rewrite_dynamic(const char *start, const char *at) {
    const text align = word_at(at);
    if (is(align, "__align__") || is(align, "alignas")) {
        const char *open = find_outside(at, "([;"), *close = find_outside(open + 1, ")");
        if (*open != '(')
            fail(start, "%.*s without its parentheses", (int)align.length, align.at);
        printf("static const unsigned vgpu_align_%d __attribute__((section(\"vgpu_aligns\"), "
               "used)) = ",
               line);
        copy_flat(trim(open + 1, close));
        fputs("; ", stdout);
        at = skip_space(close + 1);
    }
    const char *bracket = find_outside(at, "[;");
    const char *close = skip_space(bracket + 1), *end = skip_space(close + 1);
    if (*bracket != '[' || *close != ']' || *end != ';')
        fail(start, "extern __shared__ that is not of the form T name[];");
    const char *name_end = bracket, *name;
    while (isspace((unsigned char)name_end[-1]))
        name_end--;
    for (name = name_end; is_word(name[-1]);)
        name--;
    const text type = trim(at, name), word = {name, (size_t)(name_end - name)};
    const bool in_block = scopes > 0 && is_block[scopes - 1];
    if (in_block) {
        copy_flat(type);
        printf(" *const %.*s = (", (int)word.length, word.at);
        copy_flat(type);
        fputs(" *)vgpu_dynamic_shared();", stdout);
        catch_up(start, end + 1);
        return end + 1;
    }
    /* Where there is no block to evaluate it in, every use does. */
    printf("\n#define %.*s ((", (int)word.length, word.at);
    copy_flat(type);
    fputs(" *)vgpu_dynamic_shared())", stdout);
    follow(end + 1);
    printf("\n# %d \"%s\"\n", line, file);
    return end + 1;
}

/* [static | extern] __shared__: past it, or NULL where it is none. */
static const char *rewrite_shared(text first) {
    const bool is_extern = is(first, "extern"), is_static = is(first, "static");
    text shared = first;
    if (is_extern || is_static)
        shared = word_at(skip_space(first.at + first.length));
    if (!is(shared, "__shared__"))
        return NULL;
    const char *behind = shared.at + shared.length;
    if (!is_extern) {
        fputs("static __attribute__((section(\"vgpu_shared\")))", stdout);
        if (is(word_at(skip_space(behind)), "static")) /* __shared__ static is allowed too */
            behind = skip_space(behind) + strlen("static");
        catch_up(first.at, behind);
        return behind;
    }
    return rewrite_dynamic(first.at, skip_space(behind));
}

static void open_scope(const char *at, bool linkage) {
    if (scopes == SCOPES_MAX)
        fail(at, "more than %d braces are open", SCOPES_MAX);
    is_block[scopes] = !linkage || (scopes > 0 && is_block[scopes - 1]);
    scopes++;
}

static void close_scope(const char *at) {
    if (scopes == 0)
        fail(at, "a } without its {");
    scopes--;
}

static void rewrite(void) {
    bool after_extern = false, linkage = false; /* behind extern, behind extern "C" */
    for (const char *at = source; *at;) {
        const char *solid = skip_space(at);
        copy_space(at, solid);
        at = solid;
        const text word = word_at(at);
        const char *behind = word.length ? rewrite_asm(word) : NULL;
        if (word.length && !behind)
            behind = rewrite_shared(word);
        if (!behind && *at) {
            if (*at == '{')
                open_scope(at, linkage);
            if (*at == '}')
                close_scope(at);
            linkage = after_extern && *at == '"';
            after_extern = is(word, "extern");
            behind = skip_one(at);
            copy((text){at, (size_t)(behind - at)});
        }
        at = behind ? behind : at;
    }
    if (scopes > 0)
        fail(source + strlen(source), "a { without its }");
}

static char *read_all(void) {
    size_t used = 0, room = 1 << 16;
    char *all = malloc(room);
    while (all) {
        used += fread(all + used, 1, room - used - 1, stdin);
        if (used < room - 1)
            break;
        char *more = realloc(all, room *= 2);
        if (!more)
            free(all);
        all = more;
    }
    if (all)
        all[used] = '\0';
    return all;
}

int main(void) {
    source = read_all();
    if (!source || ferror(stdin)) {
        perror("rewrite: stdin");
        return 1;
    }
    place = source;
    rewrite();
    free(source);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("rewrite: stdout");
        return 1;
    }
    return 0;
}
