/* fake_driver.c: a CUDA driver without a GPU: device memory is host memory, launches go to a
 * backend (fake_backend.h), and any call can be made to fail. */
#include "tests/fake_cuda/fake_driver.h"

#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
fake_cuda fake_state = {.version = 13000,
                        .devices = FAKE_DEVICES,
                        .cc = {90, 89, 120, 75},
                        .memory_type = CU_MEMORYTYPE_DEVICE,
                        .attribute = -1};
double fake_clock_us;

EXPORT fake_cuda *fake_cuda_state(void);
EXPORT long fake_cuda_launches(void);
EXPORT void *fake_cuda_stream(void);
EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version,
                                    unsigned long long flags, int *found);

fake_cuda *fake_cuda_state(void) {
    return &fake_state;
}

/* For callers that cannot read C structs: launches so far, and the stream of the last. */
long fake_cuda_launches(void) {
    return fake_cuda_state()->launches;
}

void *fake_cuda_stream(void) {
    return fake_cuda_state()->config.hStream;
}

CUresult fake_enter(const char *call) {
    pthread_mutex_lock(&fake_lock);
    fake_state.calls++;
    CUresult code = fake_state.sticky;
    if (fake_state.calls == fake_state.fail_at ||
        (fake_state.fail_call && !strcmp(fake_state.fail_call, call))) {
        snprintf(fake_state.failed_call, sizeof fake_state.failed_call, "%s", call);
        code = fake_state.fail_code;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

void fake_add(long *counter, long n) {
    pthread_mutex_lock(&fake_lock);
    *counter += n;
    pthread_mutex_unlock(&fake_lock);
}

CUresult fake_run_launches(void) {
    if (!backend_finish())
        fake_state.sticky = CUDA_ERROR_LAUNCH_FAILED;
    return fake_state.sticky;
}

CUresult fake_finish(void) {
    pthread_mutex_lock(&fake_lock);
    const CUresult code = fake_run_launches();
    fake_fill_late();
    pthread_mutex_unlock(&fake_lock);
    return code;
}

CUresult fake_wait(void) {
    const CUresult code = fake_finish();
    if (backend_forgives())
        fake_state.sticky = CUDA_SUCCESS;
    return code;
}

CUresult fake_Init(unsigned int flags) {
    ENTER("cuInit");
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult fake_DriverGetVersion(int *version) {
    ENTER("cuDriverGetVersion");
    *version = fake_state.version;
    return CUDA_SUCCESS;
}

CUresult fake_GetErrorName(CUresult code, const char **name) {
    static const struct {
        CUresult code;
        const char *name;
    } names[] = {{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
                 {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
                 {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                 {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                 {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"}};
    *name = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].code == code)
            *name = names[i].name;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_GetErrorString(CUresult code, const char **text) {
    const char *name;
    const CUresult known = fake_GetErrorName(code, &name);
    *text = known == CUDA_SUCCESS ? backend_error_text() : NULL;
    return known;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version,
                             unsigned long long flags, int *found) {
    (void)flags, (void)found;
    *address = NULL;
    if (fake_state.missing && strcmp(symbol, fake_state.missing) == 0)
        return CUDA_ERROR_INVALID_VALUE;
#define X(name, since, parameters)                                                             \
    if (strcmp(symbol, "cu" #name) == 0 && version == since && fake_state.version >= since) {  \
        CUresult(*function) parameters = fake_##name;                                          \
        *address = *(void **)(&function);                                                      \
    }
    ATT_CUDA_CALLS(X)
    ATT_CUDA_CALLS_OPTIONAL(X)
#undef X
    return *address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
