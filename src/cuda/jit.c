/* jit.c: NVRTC, loaded at run time, and the compilation of a row to machine code. */
#include "cuda/jit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sha256.h"
#include "cuda/embed.h"
#include "cuda/flags.h"
#include "cuda/jit_cache.h"

typedef struct nvrtc_program *program;

#define NVRTC_CALLS(X)                                                                         \
    X(Version, (int *major, int *minor))                                                       \
    X(CreateProgram, (program * out, const char *source, const char *name, int count,          \
                      const char *const *headers, const char *const *names))                   \
    X(DestroyProgram, (program * out))                                                         \
    X(CompileProgram, (program p, int count, const char *const *options))                      \
    X(GetProgramLogSize, (program p, size_t * bytes))                                          \
    X(GetProgramLog, (program p, char *log))                                                   \
    X(GetCUBINSize, (program p, size_t * bytes))                                               \
    X(GetCUBIN, (program p, char *code))

typedef struct nvrtc {
    int major, minor;
#define X(name, parameters) int(*name) parameters;
    NVRTC_CALLS(X)
#undef X
} nvrtc;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nvrtc table;
static bool ready;                      /* under `lock` */
static _Thread_local char failure[200]; /* what `why` points to */

static bool fill(nvrtc *n, void *library) {
    void *address;
#define X(name, parameters)                                                                    \
    address = dlsym(library, "nvrtc" #name);                                                   \
    if (!address)                                                                              \
        return false;                                                                          \
    *(void **)(&n->name) = address;
    NVRTC_CALLS(X)
#undef X
    return n->Version(&n->major, &n->minor) == 0;
}

static bool try_library(nvrtc *n, const char *folder, const char *name) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name) >=
        (int)sizeof path)
        return false;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    *n = (nvrtc){0};
    if (fill(n, library))
        return true;
    dlclose(library);
    return false;
}

static bool find_library(nvrtc *n) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    const char *chosen = secure_getenv("ATTEST_LIBNVRTC");
    if (chosen && *chosen)
        return try_library(n, "", chosen);
    char home[4096] = "";
    const char *cuda_home = secure_getenv("CUDA_HOME");
    if (cuda_home && *cuda_home == '/')
        snprintf(home, sizeof home, "%s/lib64", cuda_home);
    const char *const folders[] = {"", home, "/usr/local/cuda/lib64"};
    for (size_t f = 0; f < sizeof folders / sizeof folders[0]; f++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (try_library(n, folders[f], names[i]))
                return true;
    return false;
}

/* A search that finds nothing opens dozens of files, and `att_jit_available()` is asked for every
 * row of every selection. So it is not repeated within a second or two, unless the environment has
 * changed. It is not final either: another library may load NVRTC later. */
static bool searched_lately(void) {
    static char last[8192];
    static struct timespec when;
    char now[sizeof last];
    struct timespec time;
    const char *chosen = secure_getenv("ATTEST_LIBNVRTC"), *home = secure_getenv("CUDA_HOME");
    clock_gettime(CLOCK_MONOTONIC, &time);
    snprintf(now, sizeof now, "%s\n%s", chosen ? chosen : "", home ? home : "");
    if (strcmp(now, last) == 0 && time.tv_sec - when.tv_sec <= 1)
        return true;
    memcpy(last, now, strlen(now) + 1);
    when = time;
    return false;
}

/* `again`: search again even if a search has just failed. */
static const nvrtc *get_nvrtc(bool again) {
    pthread_mutex_lock(&lock);
    if (!ready && (!searched_lately() || again))
        ready = find_library(&table);
    const bool found = ready;
    pthread_mutex_unlock(&lock);
    if (!found)
        snprintf(failure, sizeof failure,
                 "NVRTC (libnvrtc.so) is not found, neither by the loader nor in CUDA_HOME or "
                 "/usr/local/cuda");
    return found ? &table : NULL;
}

int att_jit_available(const char **why) {
    const bool found = get_nvrtc(false);
    if (why)
        *why = found ? "" : failure;
    return found;
}

/* The command line: pointers into one text. */
enum { OPTIONS_MAX = 128, OPTIONS_BYTES = 4096 };
typedef struct options {
    const char *list[OPTIONS_MAX];
    int count;
    char text[OPTIONS_BYTES];
    size_t used;
} options;

static bool add_option(options *o, const char *text, size_t length) {
    if (o->count == OPTIONS_MAX || o->used + length + 1 > sizeof o->text)
        return false;
    char *place = o->text + o->used;
    memcpy(place, text, length);
    place[length] = '\0';
    o->used += length + 1;
    o->list[o->count++] = place;
    return true;
}

/* Flags separated by spaces; each must be a -D. */
static att_status add_defines(options *o, const char *text) {
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        const size_t length = strcspn(text, " ");
        ATT_REQUIRE(length > 2 && strncmp(text, "-D", 2) == 0, ATT_E_ARG, "defines",
                    "defines: \"%.*s\" is not of the form -DNAME=VALUE", (int)length, text);
        ATT_REQUIRE(add_option(o, text, length), ATT_E_ARG, "defines",
                    "defines: more than the compiler can be given");
        text += length;
    }
    return ATT_OK;
}

static att_status write_options(options *o, const att_cuda_kernel *kernel, int cc,
                                const char *defines) {
    static const char standard[] = "-std=c++17";
    char architecture[48], flags[ATT_CUDA_FLAGS_MAX];
    o->count = 0;
    o->used = 0;
    /* 9.0a has Hopper instructions that later GPUs need not have. */
    snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d%s", cc,
             cc == 90 ? "a" : "");
    att_cuda_flags(flags, kernel);
    add_option(o, architecture, strlen(architecture));
    add_option(o, standard, strlen(standard));
    ATT_TRY(add_defines(o, flags));
    return defines ? add_defines(o, defines) : ATT_OK;
}

static void add_text(att_sha256 *sha, const char *text, size_t bytes) {
    const uint64_t length = bytes; /* included, so that no two lists of texts hash alike */
    att_sha256_add(sha, &length, sizeof length);
    att_sha256_add(sha, text, bytes);
}

static bool is_header(const att_embedded_text *text) {
    return text->name[strlen(text->name) - 1] == 'h';
}

/* Every header counts, whether or not the kernel includes it. */
static void add_source(att_sha256 *sha, const att_embedded_text *source) {
    for (const att_embedded_text *text = att_embedded_texts; text->name; text++) {
        if (text != source && !is_header(text))
            continue;
        add_text(sha, text->name, strlen(text->name));
        add_text(sha, text->text, text->size);
    }
}

enum { SOURCE_NAME = 128 };

/* Everything that determines the machine code. */
static void make_key(char key[ATT_SHA256_HEX], const nvrtc *n, const options *o,
                     const att_embedded_text *source) {
    att_sha256 sha;
    att_sha256_begin(&sha);
    const int version[2] = {n->major, n->minor};
    att_sha256_add(&sha, version, sizeof version);
    add_text(&sha, o->text, o->used);
    add_source(&sha, source);
    att_sha256_end(&sha, key);
}

static const att_embedded_text *find_source(const char *source, char name[SOURCE_NAME]) {
    snprintf(name, SOURCE_NAME, "kernels/%s.cu", source);
    return att_embedded_text_find(name);
}

bool att_jit_source_digest(char hex[ATT_SHA256_HEX], const char *source) {
    char name[SOURCE_NAME];
    const att_embedded_text *text = find_source(source, name);
    if (!text)
        return false;
    att_sha256 sha;
    att_sha256_begin(&sha);
    add_source(&sha, text);
    att_sha256_end(&sha, hex);
    return true;
}

/* The part of the log that says what is wrong. */
static att_status fail_with_log(const nvrtc *n, program p, const char *id) {
    size_t bytes = 0;
    char *log = NULL;
    if (n->GetProgramLogSize(p, &bytes) == 0 && bytes > 0)
        log = att_alloc(bytes + 1);
    if (log && n->GetProgramLog(p, log) != 0)
        log[0] = '\0';
    const char *error = log ? strstr(log, "error") : NULL;
    while (error && error > log && error[-1] != '\n')
        error--;
    att_fail(ATT_E_UNSUPPORTED, "kernel", "%s does not compile: %s", id,
             error ? error : (log && *log ? log : "the compiler gave no reason"));
    att_free(log);
    return ATT_E_UNSUPPORTED;
}

static att_status take_code(unsigned char **out, size_t *size, const nvrtc *n, program p,
                            const char *id) {
    ATT_REQUIRE(n->GetCUBINSize(p, size) == 0 && *size > 0, ATT_E_UNSUPPORTED, "kernel",
                "%s: NVRTC gives no machine code", id);
    unsigned char *code = att_alloc(*size);
    ATT_REQUIRE(code, ATT_E_MEMORY, "", "no memory for the %zu bytes of %s", *size, id);
    if (n->GetCUBIN(p, (char *)code) != 0) {
        att_free(code);
        return att_fail(ATT_E_UNSUPPORTED, "kernel", "%s: NVRTC gives no machine code", id);
    }
    *out = code;
    return ATT_OK;
}

/* Headers by both names under which kernels include them: "kernels/mma.cuh" and "mma.cuh". */
static int list_headers(const char **texts, const char **names) {
    int count = 0;
    for (const att_embedded_text *text = att_embedded_texts; text->name; text++) {
        if (!is_header(text))
            continue;
        const char *slash = strrchr(text->name, '/');
        const char *both[] = {text->name, slash ? slash + 1 : NULL};
        for (int i = 0; i < 2 && both[i]; i++, count++) {
            texts[count] = text->text;
            names[count] = both[i];
        }
    }
    return count;
}

static size_t count_texts(void) {
    size_t count = 0;
    while (att_embedded_texts[count].name)
        count++;
    return count;
}

static att_status compile(unsigned char **out, size_t *size, const nvrtc *n,
                          const att_embedded_text *source, const options *o, const char *id) {
    const size_t most = 2 * count_texts();
    const char **lists = att_alloc(2 * most * sizeof *lists);
    ATT_REQUIRE(lists, ATT_E_MEMORY, "", "no memory for the headers of %s", id);
    const int count = list_headers(lists, lists + most);
    program p = NULL;
    att_status status;
    if (n->CreateProgram(&p, source->text, source->name, count, lists, lists + most) != 0)
        status = att_fail(ATT_E_UNSUPPORTED, "kernel", "%s: NVRTC does not start", id);
    else if (n->CompileProgram(p, o->count, o->list) != 0)
        status = fail_with_log(n, p, id);
    else
        status = take_code(out, size, n, p, id);
    if (p)
        n->DestroyProgram(&p);
    att_free((void *)lists);
    return status;
}

att_status att_jit_compile(unsigned char **out, size_t *size, const att_cuda_kernel *kernel,
                           int cc, const char *defines, const char *cache_dir) {
    *out = NULL;
    *size = 0;
    char name[SOURCE_NAME];
    const att_embedded_text *source = find_source(kernel->source, name);
    ATT_REQUIRE(source, ATT_E_UNSUPPORTED, "kernel", "%s: the library has no source %s",
                kernel->id, name);
    options o;
    ATT_TRY(write_options(&o, kernel, cc, defines));
    const nvrtc *n = get_nvrtc(true);
    ATT_REQUIRE(n, ATT_E_UNSUPPORTED, "kernel", "%s must be compiled for this GPU, but %s",
                kernel->id, failure);
    char key[ATT_SHA256_HEX] = "";
    const int folder = att_jit_cache_open(cache_dir);
    if (folder >= 0) {
        make_key(key, n, &o, source);
        *out = att_jit_cache_read(folder, key, size);
    }
    att_status status = ATT_OK;
    if (!*out) {
        status = compile(out, size, n, source, &o, kernel->id);
        if (folder >= 0 && status == ATT_OK)
            att_jit_cache_write(folder, key, *out, *size, ATT_JIT_CACHE_MAX);
    }
    if (folder >= 0)
        close(folder);
    return status;
}
