/* code_digest.c: digests of the library's kernels, computed from the contents of the
 * library. */
#include "lab/evidence/code_digest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/embed.h"
#include "cuda/flags.h"
#include "lab/base/machine.h"
#include "lab/evidence/closure.h"

bool lab_has_gpu_code(void) {
    return att_embedded_codes->id != NULL;
}

const char *lab_built_digest(const char *name) {
    for (const lab_built *built = lab_built_digests; built->name; built++)
        if (strcmp(built->name, name) == 0)
            return built->sha256;
    return "";
}

static char *embedded_text(const char *name, size_t *size) {
    const att_embedded_text *text = att_embedded_text_find(name);
    char *copy = text ? malloc(text->size + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, text->text, text->size + 1);
    *size = text->size;
    return copy;
}

/* Extract "Cuda compilation tools, release 13.0, V13.0.88" from nvcc's version text. */
static void name_nvcc(char *buf, size_t n) {
    const char *line = strstr(lab_built_nvcc, "Cuda compilation tools");
    snprintf(buf, n, "%.*s", line ? (int)strcspn(line, "\n") : 0, line ? line : "");
}

/* The texts of a source, with all that it includes. Rows of one source differ in their flags alone, and there are hundreds of rows. */
typedef struct source_texts {
    char name[128];
    att_sha256 sha;
} source_texts;

enum { SOURCES_MOST = 128 };

static bool read_texts(source_texts *texts, lab_message *why) {
    lab_closure closure;
    lab_closure_begin(&closure, embedded_text);
    const bool ok = lab_closure_add(&closure, texts->name, why);
    lab_closure_free(&closure);
    texts->sha = closure.sha;
    return ok;
}

/* Read once per source, as long as there is room. */
static bool find_texts(source_texts *texts, const char *source, lab_message *why) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static source_texts known[SOURCES_MOST];
    static size_t count;
    size_t i = 0;
    bool ok = true;
    snprintf(texts->name, sizeof texts->name, "kernels/%s.cu", source);
    pthread_mutex_lock(&lock);
    while (i < count && strcmp(known[i].name, texts->name) != 0)
        i++;
    if (i < count)
        *texts = known[i];
    else if ((ok = read_texts(texts, why)) && count < SOURCES_MOST)
        known[count++] = *texts;
    pthread_mutex_unlock(&lock);
    return ok;
}

static bool gpu_digests(lab_code_digests *digests, const att_cuda_kernel *kernel, int cc,
                        lab_message *why) {
    source_texts texts;
    att_cuda_flags(digests->flags, kernel);
    name_nvcc(digests->compiler, sizeof digests->compiler);
    const bool ok = find_texts(&texts, kernel->source, why);
    if (ok)
        lab_closure_digest(&texts.sha, digests->flags, digests->source);
    const att_embedded_code *code = att_embedded_code_find(kernel->id, cc);
    if (code)
        att_sha256_of(code->bytes, code->size, digests->code);
    return ok;
}

bool lab_code_digests_of(lab_code_digests *digests, const att_kernel_row *row, int cc,
                         lab_message *why) {
    *digests = (lab_code_digests){.source = ""};
    if (row->cuda)
        return gpu_digests(digests, row->cuda, cc, why);
    char name[64];
    snprintf(name, sizeof name, "%s_%s", row->family->operation->name, lab_isa_name(row->isa));
    snprintf(digests->source, sizeof digests->source, "%s", lab_built_digest(name));
    snprintf(digests->compiler, sizeof digests->compiler, "%s", lab_compiler());
    snprintf(digests->flags, sizeof digests->flags, "%s", lab_built_flags);
    return true;
}

bool lab_file_digest(const char *path, char hex[ATT_SHA256_HEX]) {
    char block[1 << 14];
    att_sha256 sha;
    hex[0] = '\0';
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    att_sha256_begin(&sha);
    for (size_t got; (got = fread(block, 1, sizeof block, file)) > 0;)
        att_sha256_add(&sha, block, got);
    const bool ok = !ferror(file);
    if (ok)
        att_sha256_end(&sha, hex);
    fclose(file);
    return ok;
}
