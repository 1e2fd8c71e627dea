/* code.c: load kernels that were compiled for the host. */
#include "tests/virtual_gpu/code.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct vgpu_code {
    int file; /* open as long as the code is: the loader takes a file of the same name for the same library */
    void *library;
    const vgpu_entry_point *entry;
};

bool vgpu_is_code(const void *image) {
    return memcmp(image, VGPU_MAGIC, strlen(VGPU_MAGIC)) == 0;
}

/* Kernels call functions of this library, which was opened for its opener alone: let everybody find them. */
static bool show_functions(void) {
    Dl_info self;
    return dladdr(&vgpu_self, &self) &&
           dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

/* A file in memory alone; -1 on failure. */
static int file_of(const char *bytes, size_t count) {
    const int file = memfd_create("kernel", MFD_CLOEXEC);
    while (file >= 0 && count > 0) {
        const ssize_t written = write(file, bytes, count);
        if (written <= 0) {
            close(file);
            return -1;
        }
        bytes += written;
        count -= (size_t)written;
    }
    return file;
}

vgpu_code *vgpu_load(const void *image) {
    uint64_t bytes;
    char path[64];
    vgpu_code *code = calloc(1, sizeof *code);
    if (!code)
        return NULL;
    memcpy(&bytes, (const char *)image + strlen(VGPU_MAGIC), sizeof bytes);
    code->file = file_of((const char *)image + VGPU_HEADER, bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", code->file);
    if (show_functions() && code->file >= 0)
        code->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    code->entry = code->library ? dlsym(code->library, "vgpu_entry") : NULL;
    if (code->entry)
        return code;
    const char *why = dlerror();
    fprintf(stderr, "virtual GPU: a kernel does not load: %s\n", why ? why : "no memory");
    vgpu_unload(code);
    return NULL;
}

void vgpu_unload(vgpu_code *code) {
    if (code->library)
        dlclose(code->library);
    if (code->file >= 0)
        close(code->file);
    free(code);
}

size_t vgpu_params_bytes(const vgpu_code *code) {
    return code->entry->params_bytes;
}

size_t vgpu_static_bytes(const vgpu_code *code) {
    return (size_t)(code->entry->static_end - code->entry->static_begin);
}

const vgpu_entry_point *code_entry(const vgpu_code *code) {
    return code->entry;
}
