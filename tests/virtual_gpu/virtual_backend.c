/* virtual_backend.c: the virtual GPU behind the driver of the tests
 * (tests/fake_cuda/fake_backend.h). */
#include "tests/fake_cuda/fake_backend.h"
#include "tests/virtual_gpu/virtual_gpu.h"

/* The driver's handle is the virtual GPU's. */
static vgpu_code *code_of(const backend_code *code) {
    return (vgpu_code *)(void *)code;
}

backend_code *backend_load(const void *image) {
    return vgpu_is_code(image) ? (backend_code *)(void *)vgpu_load(image) : NULL;
}

void backend_unload(backend_code *code) {
    vgpu_unload(code_of(code));
}

size_t backend_params_bytes(const backend_code *code, const char *kernel) {
    (void)kernel;
    return vgpu_params_bytes(code_of(code));
}

/* As many threads as a block can have, and registers for all of them. */
backend_limits backend_limits_of(const backend_code *code, const char *kernel) {
    (void)kernel;
    return (backend_limits){.threads = 1024,
                            .registers = 64,
                            .shared_bytes = (int)vgpu_static_bytes(code_of(code))};
}

static bool is_programmatic(const CUlaunchConfig *config) {
    for (unsigned int i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            return config->attrs[i].value.programmaticStreamSerializationAllowed;
    return false;
}

void backend_launch(const backend_code *code, const char *kernel, const CUlaunchConfig *config,
                    int cluster, const void *params, size_t bytes) {
    (void)bytes;
    vgpu_enqueue(&(vgpu_launch){.code = code_of(code),
                                .name = kernel,
                                .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                                .threads = config->blockDimX,
                                .dynamic_bytes = config->sharedMemBytes,
                                .cluster = (unsigned)cluster,
                                .programmatic = is_programmatic(config),
                                .params = params});
}

bool backend_finish(void) {
    if (vgpu_finish())
        return true;
    vgpu_reset();
    return false;
}

/* A problem that fails does not prevent the next one from running. */
bool backend_forgives(void) {
    return true;
}

void backend_memory_added(void *memory, size_t bytes) {
    vgpu_memory_add(memory, bytes);
}

void backend_memory_removed(void *memory) {
    vgpu_memory_remove(memory);
}

void backend_memory_written(void *memory, size_t bytes) {
    vgpu_memory_written(memory, bytes);
}

bool backend_keeps_time(void) {
    return false;
}

int backend_multiprocessors(void) {
    return vgpu_multiprocessors();
}

/* A cluster always fits, however few multiprocessors there are. */
int backend_clusters(int blocks) {
    const int clusters = vgpu_multiprocessors() / blocks;
    return clusters > 1 ? clusters : 1;
}

const char *backend_name(void) {
    return "Virtual GPU";
}

const char *backend_error_text(void) {
    return "a check of the virtual GPU failed; stderr has its report";
}
