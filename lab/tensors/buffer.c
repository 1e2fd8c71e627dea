/* buffer.c: guarded memory. */
#include "lab/tensors/buffer.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "lab/base/workers.h"

/* With the address sanitizer the guards are poisoned too, so that reads are caught as well. */
#if defined(__SANITIZE_ADDRESS__)
#define GUARDS_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARDS_WATCHED 1
#endif
#endif
#ifdef GUARDS_WATCHED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes)   ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)0)
#endif

enum { GUARD_BYTES = 4096, GUARD_BYTE = 0xa5 };

static const size_t large_hashed = (size_t)64 << 20; /* at each end of a large buffer */

static void watch_guards(const lab_buffer *b) {
    ASAN_POISON_MEMORY_REGION(b->data - GUARD_BYTES, GUARD_BYTES);
    ASAN_POISON_MEMORY_REGION(b->data + b->bytes, GUARD_BYTES);
    (void)b;
}

static void unwatch_guards(const lab_buffer *b) {
    ASAN_UNPOISON_MEMORY_REGION(b->data - GUARD_BYTES, GUARD_BYTES);
    ASAN_UNPOISON_MEMORY_REGION(b->data + b->bytes, GUARD_BYTES);
    (void)b;
}

bool lab_buffer_create(lab_buffer *b, size_t bytes, size_t shift, lab_message *why) {
    const size_t overhead = 2 * GUARD_BYTES + shift;
    void *map = MAP_FAILED;
    if (bytes < SIZE_MAX / 2 && shift < SIZE_MAX / 4)
        map = mmap(NULL, bytes + overhead, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return lab_fail(why, "no memory for a tensor of %zu bytes", bytes);
    *b = (lab_buffer){
        .map = map, .map_bytes = bytes + overhead, .bytes = bytes, .poison = LAB_POISON};
    b->data = b->map + GUARD_BYTES + shift;
    memset(b->data - GUARD_BYTES, GUARD_BYTE, GUARD_BYTES);
    memset(b->data + b->bytes, GUARD_BYTE, GUARD_BYTES);
    watch_guards(b);
    return true;
}

void lab_buffer_destroy(lab_buffer *b) {
    if (!b->map)
        return;
    unwatch_guards(b);
    munmap(b->map, b->map_bytes);
    *b = (lab_buffer){0};
}

/* A buffer is written and hashed in blocks, in parallel. */
enum { BLOCK_BYTES = 1 << 20 };

static int64_t count_blocks(size_t bytes) {
    return (int64_t)((bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
}

static size_t block_bytes(size_t bytes, int64_t block) {
    const size_t left = bytes - (size_t)block * BLOCK_BYTES;
    return left < BLOCK_BYTES ? left : BLOCK_BYTES;
}

static void poison_block(void *context, int64_t block) {
    const lab_buffer *b = context;
    memset(b->data + block * BLOCK_BYTES, b->poison, block_bytes(b->bytes, block));
}

void lab_buffer_poison(lab_buffer *b) {
    lab_workers_run(count_blocks(b->bytes), poison_block, b);
}

static bool is_guard(const unsigned char *at) {
    for (int i = 0; i < GUARD_BYTES; i++)
        if (at[i] != GUARD_BYTE)
            return false;
    return true;
}

bool lab_buffer_guarded(const lab_buffer *b) {
    unwatch_guards(b);
    const bool whole = is_guard(b->data - GUARD_BYTES) && is_guard(b->data + b->bytes);
    watch_guards(b);
    return whole;
}

uint64_t lab_hash(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    for (; n >= 8; at += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    for (; n > 0; at++, n--)
        hash = (hash ^ *at) * 0x100000001b3u;
    return hash;
}

typedef struct hashing {
    const unsigned char *data;
    size_t bytes;
    _Atomic uint64_t sum; /* of the blocks' hashes, each mixed with its index */
} hashing;

static void hash_block(void *context, int64_t block) {
    hashing *h = context;
    const uint64_t hash = lab_hash((uint64_t)block + 1, h->data + block * BLOCK_BYTES,
                                   block_bytes(h->bytes, block));
    atomic_fetch_add(&h->sum, lab_hash(hash, &block, sizeof block));
}

static uint64_t hash_blocks(const unsigned char *data, size_t bytes) {
    hashing h = {.data = data, .bytes = bytes};
    lab_workers_run(count_blocks(bytes), hash_block, &h);
    return atomic_load(&h.sum);
}

static uint64_t hash_buffer(const lab_buffer *b) {
    if (b->bytes <= LAB_BUFFER_LARGE)
        return hash_blocks(b->data, b->bytes);
    const uint64_t back = hash_blocks(b->data + b->bytes - large_hashed, large_hashed);
    return lab_hash(hash_blocks(b->data, large_hashed), &back, sizeof back);
}

void lab_buffer_seal(lab_buffer *b) {
    b->hash = hash_buffer(b);
}

bool lab_buffer_sealed(const lab_buffer *b) {
    return b->hash == hash_buffer(b);
}

bool lab_workspace_create(lab_buffer *workspace, size_t bytes, lab_message *why) {
    *workspace = (lab_buffer){0};
    if (bytes == 0)
        return true;
    if (!lab_buffer_create(workspace, bytes, 0, why))
        return false;
    lab_buffer_poison(workspace);
    return true;
}

void lab_workspace_poison(lab_buffer *workspace) {
    if (workspace->map)
        lab_buffer_poison(workspace);
}

bool lab_workspace_check(const lab_buffer *workspace, lab_message *why) {
    return !workspace->map || lab_buffer_guarded(workspace) ||
           lab_fail(why, "memory beside the workspace was written");
}

void lab_workspace_destroy(lab_buffer *workspace) {
    lab_buffer_destroy(workspace);
}
