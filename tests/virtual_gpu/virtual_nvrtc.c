/* virtual_nvrtc.c: an NVRTC whose machine code is the host's, for the virtual GPU.
 *
 * A kernel is preprocessed, rewritten (rewrite.c) and compiled by the host's C++ compiler; what comes out is a shared object with a
 * header of its own (virtual_gpu.h). The rewriter and the headers that it needs lie beside this library.
 *
 *     ATTEST_VIRTUAL_CXX       the compiler, in place of c++
 *     ATTEST_VIRTUAL_CXXFLAGS  flags behind those of this file
 *     ATTEST_VIRTUAL_SOURCES   a folder that kernels/ is read from, in place of the texts of the library: faults are planted there
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/virtual_gpu/virtual_gpu.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_PROGRAM = 1,
    NVRTC_ERROR_INPUT = 3,
    NVRTC_ERROR_COMPILATION = 6
};

typedef struct program {
    char folder[PATH_MAX]; /* of its own; "": none */
    char name[256];        /* "kernels/mma.cu" */
    char *log;             /* what the compiler said; NULL: nothing */
    char *code;
    size_t code_bytes;
} program;

EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT int nvrtcCreateProgram(program **out, const char *source, const char *name, int count,
                              const char *const *headers, const char *const *names);
EXPORT int nvrtcDestroyProgram(program **p);
EXPORT int nvrtcCompileProgram(program *p, int count, const char *const *options);
EXPORT int nvrtcGetProgramLogSize(program *p, size_t *bytes);
EXPORT int nvrtcGetProgramLog(program *p, char *log);
EXPORT int nvrtcGetCUBINSize(program *p, size_t *bytes);
EXPORT int nvrtcGetCUBIN(program *p, char *code);

/* ------------------------------------------------------------ files */

/* FOLDER/NAME; false where it is too long. */
static bool join(char out[PATH_MAX], const char *folder, const char *name) {
    return snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

/* A file beside this library. */
static bool beside(char out[PATH_MAX], const char *name) {
    Dl_info self;
    char path[PATH_MAX];
    int (*own)(int *, int *) = nvrtcVersion;
    if (!dladdr(*(void **)&own, &self) || !realpath(self.dli_fname, path))
        return false;
    *strrchr(path, '/') = '\0';
    return join(out, path, name);
}

static const char *from_environment(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static char *read_file(const char *path, size_t *bytes) {
    struct stat s;
    FILE *file = fopen(path, "rb");
    char *data = file && fstat(fileno(file), &s) == 0 ? malloc((size_t)s.st_size + 1) : NULL;
    if (data) {
        *bytes = fread(data, 1, (size_t)s.st_size, file);
        data[*bytes] = '\0';
    }
    if (file)
        fclose(file);
    return data;
}

/* The folders on the way are made. */
static bool write_file(const char *folder, const char *name, const char *text) {
    char path[PATH_MAX];
    if (*name == '/' || strstr(name, "..") || !join(path, folder, name))
        return false;
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    const bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at) {
    (void)s, (void)type, (void)at;
    return remove(path);
}

static void remove_folder(program *p) {
    if (*p->folder)
        nftw(p->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    p->folder[0] = '\0';
}

/* ------------------------------------------------------------ the version */

/* FNV-1a. */
static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t mix_text(uint64_t hash, const char *text) {
    return text ? mix(hash, text, strlen(text) + 1) : mix(hash, "\1", 1);
}

static uint64_t mix_file(uint64_t hash, const char *path) {
    size_t bytes = 0;
    char *data = read_file(path, &bytes);
    hash = mix(mix_text(hash, path), data, data ? bytes : 0);
    free(data);
    return hash;
}

/* Every file of FOLDER/kernels, in any order. */
static uint64_t hash_sources(const char *folder) {
    char path[PATH_MAX], file[PATH_MAX];
    DIR *dir = join(path, folder, "kernels") ? opendir(path) : NULL;
    uint64_t sum = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && join(file, path, entry->d_name))
            sum += mix_file(0, file);
    if (dir)
        closedir(dir);
    return sum;
}

static bool has_fma(void) {
#if defined __x86_64__
    return __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

/* The library's cache of code asks for the version (src/cuda/jit.c): everything that the code follows from, beside the texts
 * and options that it knows itself, must give another. */
int nvrtcVersion(int *major, int *minor) {
    static const char *const parts[] = {"rewrite", "cuda_builtins.h", "abi.h", "entry.h",
                                        "libnvrtc.so"};
    uint64_t hash = has_fma();
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char path[PATH_MAX];
        if (!beside(path, parts[i]) || access(path, R_OK) != 0)
            return NVRTC_ERROR_PROGRAM;
        hash = mix_file(hash, path);
    }
    const char *folder = from_environment("ATTEST_VIRTUAL_SOURCES");
    hash = mix_text(hash, from_environment("ATTEST_VIRTUAL_CXX"));
    hash = mix_text(hash, from_environment("ATTEST_VIRTUAL_CXXFLAGS"));
    hash += folder ? hash_sources(folder) : 0;
    *major = 13;
    *minor = (int)((hash ^ hash >> 32) & INT_MAX);
    return NVRTC_SUCCESS;
}

/* ------------------------------------------------------------ programs */

int nvrtcCreateProgram(program **out, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names) {
    const char *temporary = from_environment("TMPDIR");
    program *p = *out = calloc(1, sizeof *p);
    if (!p)
        return NVRTC_ERROR_PROGRAM;
    snprintf(p->name, sizeof p->name, "%s", name);
    bool ok = join(p->folder, temporary ? temporary : "/tmp", "attest-virtual-XXXXXX");
    if (!ok || !mkdtemp(p->folder)) {
        p->folder[0] = '\0'; /* nothing is there to be removed */
        ok = false;
    }
    ok = ok && write_file(p->folder, name, source);
    for (int i = 0; ok && i < count; i++)
        ok = write_file(p->folder, names[i], headers[i]);
    if (ok)
        return NVRTC_SUCCESS;
    nvrtcDestroyProgram(out);
    return NVRTC_ERROR_PROGRAM;
}

int nvrtcDestroyProgram(program **p) {
    if (*p) {
        remove_folder(*p);
        free((*p)->log);
        free((*p)->code);
        free(*p);
    }
    *p = NULL;
    return NVRTC_SUCCESS;
}

/* ------------------------------------------------------------ commands */

enum { ARGUMENTS_MAX = 256, ARGUMENTS_BYTES = 16384 };

typedef struct command {
    char *list[ARGUMENTS_MAX + 1];
    int count;
    char text[ARGUMENTS_BYTES];
    size_t used;
    bool full;
} command;

__attribute__((format(printf, 2, 3))) static void add(command *c, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const size_t room = sizeof c->text - c->used;
    const int length = vsnprintf(c->text + c->used, room, format, list);
    va_end(list);
    if (c->count == ARGUMENTS_MAX || length < 0 || (size_t)length >= room) {
        c->full = true;
        return;
    }
    c->list[c->count++] = c->text + c->used;
    c->used += (size_t)length + 1;
}

static void add_words(command *c, const char *words) {
    for (words += strspn(words, " "); *words; words += strspn(words, " ")) {
        const int length = (int)strcspn(words, " ");
        add(c, "%.*s", length, words);
        words += length;
    }
}

static void add_compiler(command *c) {
    const char *chosen = from_environment("ATTEST_VIRTUAL_CXX");
    add_words(c, chosen ? chosen : "c++"); /* it may be "ccache c++" */
}

/* Files of the program's folder that a command reads and writes; "": none. What it complains of goes to the log. */
static bool run(program *p, command *c, const char *in, const char *out, const char *folder) {
    char input[PATH_MAX], output[PATH_MAX], log[PATH_MAX];
    if (c->full || !join(input, p->folder, in) || !join(output, p->folder, out) ||
        !join(log, p->folder, "log"))
        return false;
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    posix_spawn_file_actions_addopen(&actions, 0, *in ? input : "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, *out ? output : "/dev/null",
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    pid_t child;
    int status = 1;
    const int error = posix_spawnp(&child, c->list[0], &actions, NULL, c->list, environ);
    posix_spawn_file_actions_destroy(&actions);
    FILE *complaints = error ? fopen(log, "a") : NULL;
    if (complaints) {
        fprintf(complaints, "error: %s cannot be run: %s\n", c->list[0], strerror(error));
        fclose(complaints);
    }
    while (!error && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return !error && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ------------------------------------------------------------ the way to code */

/* The kernel sees no header and no macro of the host, and is told what CUDA's compiler tells it. */
static bool preprocess(program *p, const char *folder, int count, const char *const *options) {
    static const char architecture[] = "--gpu-architecture=sm_";
    command c = {.count = 0};
    add_compiler(&c);
    add_words(&c, "-x c++ -std=c++17 -E -w -nostdinc -undef -Wno-builtin-macro-redefined");
    add_words(&c, "-D__cplusplus=201703L -D__CUDACC__=1 -D__CUDACC_RTC__=1 -I.");
    for (int i = 0; i < count; i++) {
        if (strncmp(options[i], architecture, strlen(architecture)) == 0)
            add(&c, "-D__CUDA_ARCH__=%d0", atoi(options[i] + strlen(architecture)));
        else if (strncmp(options[i], "-D", 2) == 0)
            add(&c, "%s", options[i]);
    }
    add(&c, "-");
    char entry[PATH_MAX], unit[2 * PATH_MAX];
    if (!beside(entry, "entry.h"))
        return false;
    snprintf(unit, sizeof unit, "#include \"%s\"\n#include \"%s\"\n", p->name, entry);
    return write_file(p->folder, "unit.cu", unit) && run(p, &c, "unit.cu", "unit.i", folder);
}

static bool rewrite(program *p) {
    char path[PATH_MAX];
    command c = {.count = 0};
    if (!beside(path, "rewrite"))
        return false;
    add(&c, "%s", path);
    return run(p, &c, "unit.i", "unit.cpp", p->folder);
}

static bool is_clang(program *p) {
    command c = {.count = 0};
    char path[PATH_MAX];
    size_t bytes;
    add_compiler(&c);
    add_words(&c, "-x c++ -E -dM /dev/null");
    if (!run(p, &c, "", "macros", p->folder) || !join(path, p->folder, "macros"))
        return false;
    char *macros = read_file(path, &bytes);
    const bool found = macros && strstr(macros, "__clang__");
    free(macros);
    return found;
}

/* Loads and stores are instrumented for ThreadSanitizer, whose functions the virtual GPU has: it is not to be linked. */
static bool compile(program *p) {
    char builtins[PATH_MAX];
    command c = {.count = 0};
    if (!beside(builtins, "cuda_builtins.h"))
        return false;
    add_compiler(&c);
    add_words(&c, "-std=c++17 -Og -g1 -w -Wno-psabi -fPIC -fvisibility=hidden "
                  "-fno-strict-aliasing -ffp-contract=fast -fsanitize=thread");
    add_words(&c, is_clang(p) ? "-mllvm -tsan-instrument-func-entry-exit=0 "
                                "-mllvm -tsan-distinguish-volatile=1"
                              : "--param tsan-instrument-func-entry-exit=0 "
                                "--param tsan-distinguish-volatile=1");
    if (has_fma())
        add(&c, "-mfma");
    const char *more = from_environment("ATTEST_VIRTUAL_CXXFLAGS");
    add_words(&c, more ? more : "");
    add_words(&c, "-include");
    add(&c, "%s", builtins);
    add_words(&c, "-c -o unit.o unit.cpp");
    return run(p, &c, "", "", p->folder);
}

static bool link_code(program *p) {
    command c = {.count = 0};
    add_compiler(&c);
    add_words(&c, "-shared -o unit.so unit.o -lm");
    return run(p, &c, "", "", p->folder);
}

static bool take_code(program *p) {
    char path[PATH_MAX];
    size_t bytes = 0;
    char *object = join(path, p->folder, "unit.so") ? read_file(path, &bytes) : NULL;
    const uint64_t length = bytes;
    p->code = object ? malloc(VGPU_HEADER + bytes) : NULL;
    if (p->code) {
        p->code_bytes = VGPU_HEADER + bytes;
        memcpy(p->code, VGPU_MAGIC, 8);
        memcpy(p->code + 8, &length, sizeof length);
        memcpy(p->code + VGPU_HEADER, object, bytes);
    }
    free(object);
    return p->code;
}

int nvrtcCompileProgram(program *p, int count, const char *const *options) {
    const char *folder = from_environment("ATTEST_VIRTUAL_SOURCES");
    char log[PATH_MAX];
    size_t bytes;
    const bool ok = preprocess(p, folder ? folder : p->folder, count, options) && rewrite(p) &&
                    compile(p) && link_code(p) && take_code(p);
    p->log = join(log, p->folder, "log") ? read_file(log, &bytes) : NULL;
    remove_folder(p);
    return ok ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

int nvrtcGetProgramLogSize(program *p, size_t *bytes) {
    *bytes = p->log ? strlen(p->log) + 1 : 0;
    return NVRTC_SUCCESS;
}

int nvrtcGetProgramLog(program *p, char *log) {
    if (p->log)
        strcpy(log, p->log);
    return p->log ? NVRTC_SUCCESS : NVRTC_ERROR_INPUT;
}

int nvrtcGetCUBINSize(program *p, size_t *bytes) {
    *bytes = p->code_bytes;
    return p->code ? NVRTC_SUCCESS : NVRTC_ERROR_PROGRAM;
}

int nvrtcGetCUBIN(program *p, char *code) {
    if (p->code)
        memcpy(code, p->code, p->code_bytes);
    return p->code ? NVRTC_SUCCESS : NVRTC_ERROR_PROGRAM;
}
