/* access.c: what C code compiled with -fsanitize=thread calls before each of its loads and
 * stores: the accesses of kernels outside asm statements. GCC calls these for all of them, also
 * for copies of structs; it does not see explicit calls of memcpy() and memset(), which no
 * kernel has. */
#include <link.h>

#include "tests/virtual_gpu/global_memory.h"
#include "tests/virtual_gpu/lanes.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/shared_memory.h"

static inline bool is_within(const void *memory, const void *begin, size_t bytes) {
    return (uintptr_t)memory - (uintptr_t)begin < bytes;
}

/* The shared object of the kernel, and the launch that asked for it last. */
typedef struct kernel_object {
    long launch;
    uintptr_t code; /* an address in it */
    uintptr_t begin, end;
} kernel_object;

static int find_object(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    kernel_object *object = data;
    uintptr_t begin = UINTPTR_MAX, end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD)
            continue;
        const uintptr_t at = info->dlpi_addr + part->p_vaddr;
        begin = at < begin ? at : begin;
        end = at + part->p_memsz > end ? at + part->p_memsz : end;
    }
    if (object->code < begin || object->code >= end)
        return 0;
    object->begin = begin;
    object->end = end;
    return 1;
}

static bool is_in_kernel(const vgpu_grid *grid, const void *memory) {
    static kernel_object object;
    if (object.launch != grid->number) {
        object = (kernel_object){.launch = grid->number, .code = (uintptr_t)grid->entry->run};
        dl_iterate_phdr(find_object, &object);
    }
    return is_within(memory, (const void *)object.begin, object.end - object.begin);
}

static bool is_in_cluster(const vgpu_cluster *cluster, const void *memory) {
    for (int i = 0; i < cluster->count; i++)
        if (is_within(memory, cluster->blocks[i].memory, cluster->blocks[i].bytes))
            return true;
    return false;
}

/* Its built-in variables: threadIdx and the like. */
static bool is_built_in(const vgpu_lane *lane, const void *memory) {
    return is_within(memory, &lane->is, sizeof lane->is) || memory == (void *)&vgpu_self ||
           is_within(memory, &vgpu_grid_size, sizeof vgpu_grid_size) ||
           is_within(memory, &vgpu_block_size, sizeof vgpu_block_size);
}

static void touch_constant(bool write, const char *of) {
    if (write)
        vgpu_fail(CHECK_BOUNDS, "C code writes %s, which is constant", of);
}

static void touch_elsewhere(vgpu_lane *lane, const void *memory, size_t bytes, bool write) {
    const vgpu_grid *grid = lane->block->cluster->grid;
    const vgpu_entry_point *entry = grid->entry;
    if (is_within(memory, entry->static_begin,
                  (size_t)(entry->static_end - entry->static_begin)) ||
        is_in_cluster(lane->block->cluster, memory))
        shared_touch_memory(lane, memory, (unsigned)bytes, write ? SHARED_WRITE : SHARED_READ);
    else if (is_in_kernel(grid, memory))
        touch_constant(write, "the data of the kernel's own object");
    else
        global_touch(lane, memory, bytes, write ? GLOBAL_WRITE : GLOBAL_READ, "C code");
}

/* Ordered by frequency. `code` is the address of the access in the kernel's code. */
static inline void touch(const void *memory, size_t bytes, bool write, const void *code) {
    vgpu_lane *lane = vgpu_lane_now();
    if (!lane || is_within(memory, lane->fiber.stack, lane->fiber.stack_bytes))
        return;
    lane->code = code;
    const vgpu_block *block = lane->block;
    const vgpu_grid *grid = block->cluster->grid;
    if (is_within(memory, block->memory, block->bytes))
        shared_touch_memory(lane, memory, (unsigned)bytes, write ? SHARED_WRITE : SHARED_READ);
    else if (is_within(memory, grid->params, grid->params_bytes))
        touch_constant(write, "a parameter of the kernel");
    else if (is_built_in(lane, memory))
        touch_constant(write, "a built-in variable");
    else if (global_contains(memory))
        global_touch(lane, memory, bytes, write ? GLOBAL_WRITE : GLOBAL_READ, "C code");
    else
        touch_elsewhere(lane, memory, bytes, write);
}

/* The names are the compiler's; kernels find them when they are loaded. */
#define EXPORTED __attribute__((visibility("default")))

#define ACCESS(name, bytes, write)                                                             \
    EXPORTED void __tsan_##name(void *memory);                                                 \
    void __tsan_##name(void *memory) {                                                         \
        touch(memory, bytes, write, __builtin_return_address(0));                              \
    }
#define ACCESSES_OF(bytes)                                                                     \
    ACCESS(read##bytes, bytes, false)                                                          \
    ACCESS(write##bytes, bytes, true)                                                          \
    ACCESS(unaligned_read##bytes, bytes, false)                                                \
    ACCESS(unaligned_write##bytes, bytes, true)                                                \
    ACCESS(volatile_read##bytes, bytes, false)                                                 \
    ACCESS(volatile_write##bytes, bytes, true)                                                 \
    ACCESS(unaligned_volatile_read##bytes, bytes, false)                                       \
    ACCESS(unaligned_volatile_write##bytes, bytes, true)

ACCESSES_OF(1)
ACCESSES_OF(2)
ACCESSES_OF(4)
ACCESSES_OF(8)
ACCESSES_OF(16)
ACCESS(vptr_read, sizeof(void *), false)

EXPORTED void __tsan_vptr_update(void **pointer, void *value);
void __tsan_vptr_update(void **pointer, void *value) {
    (void)value;
    touch(pointer, sizeof *pointer, true, __builtin_return_address(0));
}

EXPORTED void __tsan_read_range(void *memory, unsigned long bytes);
void __tsan_read_range(void *memory, unsigned long bytes) {
    touch(memory, bytes, false, __builtin_return_address(0));
}

EXPORTED void __tsan_write_range(void *memory, unsigned long bytes);
void __tsan_write_range(void *memory, unsigned long bytes) {
    touch(memory, bytes, true, __builtin_return_address(0));
}

EXPORTED void __tsan_init(void);
void __tsan_init(void) {
}

EXPORTED void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller) {
    (void)caller;
}

EXPORTED void __tsan_func_exit(void);
void __tsan_func_exit(void) {
}
