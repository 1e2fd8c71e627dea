/* fuzz_jit_cache.c: entries of the cache of compiled kernels: bytes that another program may
 * have left there. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cuda/jit_cache.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

static const char key[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const char *path;
static int folder = -1;

static void remove_folder(void) {
    unlinkat(folder, key, 0);
    rmdir(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    path = input_folder();
    folder = att_jit_cache_open(path);
    if (folder < 0)
        finding("%s is no cache", path);
    atexit(remove_folder);
    return 0;
}

static void put(const uint8_t *data, size_t size) {
    const int fd = openat(folder, key, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

/* An entry that is written unchanged is read back; with one byte of the file changed, it is not
 * found. */
static void check_round(const uint8_t *data, size_t size) {
    size_t got = 0;
    att_jit_cache_write(folder, key, data, size, ATT_JIT_CACHE_MAX);
    unsigned char *bytes = att_jit_cache_read(folder, key, &got);
    if (bytes ? got != size || memcmp(bytes, data, size) != 0 : size > 0)
        finding("an entry of %zu bytes is not read back", size);
    att_free(bytes);
    const int fd = openat(folder, key, O_RDWR);
    struct stat info;
    unsigned char byte;
    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size > 0) {
        const off_t at = (off_t)(size * 7 % (size_t)info.st_size);
        if (pread(fd, &byte, 1, at) != 1)
            abort();
        byte ^= 1;
        if (pwrite(fd, &byte, 1, at) != 1)
            abort();
        bytes = att_jit_cache_read(folder, key, &got);
        if (bytes)
            finding("an entry with a changed byte at %lld is believed", (long long)at);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t got = 0;
    put(data, size);
    att_free(att_jit_cache_read(folder, key, &got));
    check_round(data, size);
    return 0;
}
