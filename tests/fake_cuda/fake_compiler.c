/* fake_compiler.c: an NVRTC that compiles nothing, and can be made to fail, or with the variable
 * FAKE_NVRTC_MS to take that many milliseconds. */
#include "tests/fake_cuda/fake_cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct fake_program {
    char name[128];        /* of the source */
    char code[4096 + 256]; /* instead of machine code: options and source */
} fake_program;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fake_nvrtc state;

EXPORT fake_nvrtc *fake_nvrtc_state(void);
EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT int nvrtcCreateProgram(fake_program **out, const char *source, const char *name,
                              int count, const char *const *headers, const char *const *names);
EXPORT int nvrtcDestroyProgram(fake_program **program);
EXPORT int nvrtcCompileProgram(fake_program *program, int count, const char *const *options);
EXPORT int nvrtcGetProgramLogSize(fake_program *program, size_t *bytes);
EXPORT int nvrtcGetProgramLog(fake_program *program, char *log);
EXPORT int nvrtcGetCUBINSize(fake_program *program, size_t *bytes);
EXPORT int nvrtcGetCUBIN(fake_program *program, char *code);

fake_nvrtc *fake_nvrtc_state(void) {
    return &state;
}

static int fails(void) {
    pthread_mutex_lock(&lock);
    const int now = ++state.calls == state.fail_at;
    pthread_mutex_unlock(&lock);
    return now;
}

int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return fails();
}

int nvrtcCreateProgram(fake_program **out, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names) {
    (void)headers, (void)names;
    if (fails())
        return 1;
    *out = calloc(1, sizeof **out);
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    pthread_mutex_lock(&lock);
    state.programs_live++;
    state.headers = count;
    snprintf(state.source, sizeof state.source, "%s", source);
    pthread_mutex_unlock(&lock);
    return 0;
}

int nvrtcDestroyProgram(fake_program **program) {
    free(*program);
    pthread_mutex_lock(&lock);
    state.programs_live--;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void take_time(void) {
    const char *text = getenv("FAKE_NVRTC_MS");
    const long ms = text ? strtol(text, NULL, 10) : 0;
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

int nvrtcCompileProgram(fake_program *program, int count, const char *const *options) {
    take_time();
    if (fails())
        return 6;
    pthread_mutex_lock(&lock);
    state.options[0] = '\0';
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(state.options);
        snprintf(state.options + used, sizeof state.options - used, "%s%s", i ? " " : "",
                 options[i]);
    }
    snprintf(program->code, sizeof program->code, "%s %s", state.options, program->name);
    const int broken = state.log != NULL;
    state.compiled += !broken;
    pthread_mutex_unlock(&lock);
    return broken ? 6 : 0;
}

int nvrtcGetProgramLogSize(fake_program *program, size_t *bytes) {
    (void)program;
    *bytes = state.log ? strlen(state.log) + 1 : 0;
    return fails();
}

int nvrtcGetProgramLog(fake_program *program, char *log) {
    (void)program;
    if (fails())
        return 1;
    strcpy(log, state.log);
    return 0;
}

int nvrtcGetCUBINSize(fake_program *program, size_t *bytes) {
    *bytes = strlen(program->code) + 1;
    return fails();
}

int nvrtcGetCUBIN(fake_program *program, char *code) {
    if (fails())
        return 1;
    strcpy(code, program->code);
    return 0;
}
