/* source_digests.c: the digests of the sources that are not in the library: the CPU engines, the laboratory.
 *
 *     source_digests NVCC_FLAGS_FILE C_FLAGS NAME FLAGS FILE... [-- NAME FLAGS FILE...]... >source_digests.c
 *
 * writes the tables of lab/evidence/code_digest.h. Runs in the root of the tree. The first file may be absent: no nvcc. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/evidence/closure.h"

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

/* The same folders and order as the compiler: include, src, root. */
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

/* NAME FLAGS FILE... up to "--"; returns how many words it took. */
static int put_digest(int argc, char **argv) {
    char hex[ATT_SHA256_HEX];
    lab_closure closure;
    lab_message why;
    lab_closure_begin(&closure, find_text);
    int i = 2;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!lab_closure_add(&closure, argv[i], &why)) {
            fprintf(stderr, "source_digests: %s\n", why.text);
            exit(1);
        }
    lab_closure_end(&closure, argv[1], hex);
    printf("    {\"%s\", \"%s\"},\n", argv[0], hex);
    return i < argc ? i + 1 : i;
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
