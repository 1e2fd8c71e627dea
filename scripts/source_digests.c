/* source_digests.c: the digests of the sources that are not in the library: the CPU engines,
 * the laboratory, the host code.
 *
 *     source_digests NVCC_FLAGS_FILE C_FLAGS NAME FLAGS FILE... [-- NAME FLAGS FILE...]... >source_digests.c
 *
 * writes the tables of lab/evidence/code_digest.h. Runs in the root of the tree. The first
 * file may be absent: no nvcc. A part is its files with everything that they include, and
 * FLAGS. If FLAGS is --texts, it is only those files, without comments and layout; if it is
 * --bytes, byte by byte. In both cases neither their names nor their folders count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/evidence/closure.h"
#include "lab/evidence/code_text.h"

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "r");
    if (!file)
        return NULL;
    size_t room = 1 << 16;
    char *text = malloc(room);
    for (*size = 0; text && !feof(file) && !ferror(file);) {
        if (*size + 1 == room)
            text = realloc(text, room *= 2);
        if (text)
            *size += fread(text + *size, 1, room - 1 - *size, file);
    }
    if (text)
        text[*size] = '\0';
    fclose(file);
    return text;
}

/* The same folders in the same order as the compiler: include, src, root. */
static char *find_text(const char *name, size_t *size) {
    static const char *const folders[] = {"include/", "src/", ""};
    char *text = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && !text; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s%s", folders[i], name);
        text = read_file(path, size);
    }
    return text;
}

static void put_string(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", stdout);
        else if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else
            putchar(*text);
    }
    putchar('"');
}

static void fail(const char *text) {
    fprintf(stderr, "source_digests: %s\n", text);
    exit(1);
}

/* The digest of files with everything that they include. */
static void digest_closure(char hex[ATT_SHA256_HEX], const char *flags, char **files,
                           int count) {
    lab_closure closure;
    lab_message why;
    lab_closure_begin(&closure, find_text);
    for (int i = 0; i < count; i++)
        if (!lab_closure_add(&closure, files[i], &why))
            fail(why.text);
    lab_closure_digest(&closure.sha, flags, hex);
    lab_closure_free(&closure);
}

static int compare_digests(const void *a, const void *b) {
    return strcmp(a, b);
}

/* The digest of files alone: that of their sorted digests, one per line, as sha256sum would
 * print them. */
static void digest_files(char hex[ATT_SHA256_HEX], bool bytes, char **files, int count) {
    char(*digests)[ATT_SHA256_HEX] = calloc((size_t)count + 1, sizeof *digests);
    if (!digests)
        fail("no memory");
    for (int i = 0; i < count; i++) {
        size_t size;
        char *text = read_file(files[i], &size);
        if (!text)
            fail(files[i]);
        if (!bytes)
            size = lab_text_normalise(text, size);
        att_sha256_of(text, size, digests[i]);
        free(text);
    }
    qsort(digests, (size_t)count, sizeof *digests, compare_digests);
    att_sha256 sha;
    att_sha256_begin(&sha);
    for (int i = 0; i < count; i++) {
        att_sha256_add(&sha, digests[i], ATT_SHA256_HEX - 1);
        att_sha256_add(&sha, "\n", 1);
    }
    att_sha256_end(&sha, hex);
    free(digests);
}

/* NAME FLAGS FILE... up to "--"; returns the number of words used. */
static int put_digest(int argc, char **argv) {
    char hex[ATT_SHA256_HEX];
    int end = 2;
    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    const bool bytes = strcmp(argv[1], "--bytes") == 0;
    if (bytes || strcmp(argv[1], "--texts") == 0)
        digest_files(hex, bytes, argv + 2, end - 2);
    else
        digest_closure(hex, argv[1], argv + 2, end - 2);
    printf("    {\"%s\", \"%s\"},\n", argv[0], hex);
    return end < argc ? end + 1 : end;
}

int main(int argc, char **argv) {
    if (argc < 6)
        return 2;
    puts("/* source_digests.c: written by scripts/source_digests.c. */\n"
         "#include \"lab/evidence/code_digest.h\"\n\nconst lab_built lab_built_digests[] = {");
    for (int at = 3; at + 2 < argc;)
        at += put_digest(argc - at, argv + at);
    puts("    {0, 0}};");
    size_t size;
    char *nvcc = read_file(argv[1], &size);
    fputs("const char lab_built_nvcc[] =\n    ", stdout);
    put_string(nvcc ? nvcc : "");
    fputs(";\nconst char lab_built_flags[] =\n    ", stdout);
    put_string(argv[2]);
    puts(";");
    free(nvcc);
    return 0;
}
