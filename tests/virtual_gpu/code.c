/* code.c: loads kernels that were compiled for the host. */
#include "tests/virtual_gpu/code.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct vgpu_code {
    void *library;
    int file; /* stays open: the loader treats two files of one name as the same */
    const vgpu_entry_point *entry;
    struct vgpu_code *next; /* of those loaded */
};
static vgpu_code *loaded;

bool vgpu_is_code(const void *image) {
    return memcmp(image, VGPU_MAGIC, strlen(VGPU_MAGIC)) == 0;
}

/* Kernels call functions of this library, which was opened privately: make them visible to
 * all. */
static bool show_functions(void) {
    Dl_info self;
    return dladdr(&vgpu_self, &self) &&
           dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

/* An in-memory file; -1 on failure. */
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

static void *open_object(int file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void close_object(void *library, int file) {
    if (library)
        dlclose(library);
    if (file >= 0)
        close(file);
}

vgpu_code *vgpu_load(const void *image) {
    uint64_t bytes;
    memcpy(&bytes, (const char *)image + strlen(VGPU_MAGIC), sizeof bytes);
    const int file = file_of((const char *)image + VGPU_HEADER, bytes);
    void *library = file >= 0 && show_functions() ? open_object(file) : NULL;
    const vgpu_entry_point *entry = library ? dlsym(library, "vgpu_entry") : NULL;
    vgpu_code *code = entry ? malloc(sizeof *code) : NULL;
    if (code) {
        *code = (vgpu_code){library, file, entry, loaded};
        loaded = code;
        return code;
    }
    const char *why = dlerror();
    fprintf(stderr, "virtual GPU: a kernel does not load: %s\n", why ? why : "no memory");
    close_object(library, file);
    return NULL;
}

void vgpu_unload(vgpu_code *code) {
    if (!code)
        return;
    vgpu_code **link = &loaded;
    while (*link != code)
        link = &(*link)->next;
    *link = code->next;
    close_object(code->library, code->file);
    free(code);
}

/* addr2line reads the code's file as this process has it. The address is a return address: one
 * byte before it is inside the call. */
static bool ask_for_line(const vgpu_code *code, size_t offset, char *text, int bytes) {
    char command[128];
    snprintf(command, sizeof command, "addr2line -e /proc/%ld/fd/%d 0x%zx 2>/dev/null",
             (long)getpid(), code->file, offset - 1);
    FILE *answer = popen(command, "r");
    if (!answer)
        return false;
    const bool read = fgets(text, bytes, answer);
    text[strcspn(text, "\n")] = '\0';
    const char *name = strstr(text, "/kernels/"); /* after the folder that it was compiled in */
    if (name)
        memmove(text, name + 1, strlen(name + 1) + 1);
    return pclose(answer) == 0 && read && text[0] != '?';
}

bool code_place(const void *address, char *text, size_t bytes) {
    Dl_info of_address, of_code;
    if (!dladdr(address, &of_address))
        return false;
    for (const vgpu_code *code = loaded; code; code = code->next)
        if (dladdr((const void *)code->entry, &of_code) &&
            of_code.dli_fbase == of_address.dli_fbase)
            return ask_for_line(
                code, (size_t)((const char *)address - (const char *)of_code.dli_fbase), text,
                (int)bytes);
    return false;
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
