/* text_input.c: files in memory. */
#include "tests/fuzz/text_input.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/random_input.h"

const char *input_file(int number, const uint8_t *data, size_t size) {
    static struct {
        int fd;
        char path[32];
    } files[4];
    if (!files[number].path[0]) {
        files[number].fd = memfd_create("input", 0);
        snprintf(files[number].path, sizeof files[number].path, "/proc/self/fd/%d",
                 files[number].fd);
    }
    if (ftruncate(files[number].fd, (off_t)size) != 0 ||
        pwrite(files[number].fd, data, size, 0) != (ssize_t)size)
        abort();
    return files[number].path;
}

const char *input_folder(void) {
    static char in_memory[] = "/dev/shm/attest_fuzz.XXXXXX",
                elsewhere[] = "/tmp/attest_fuzz.XXXXXX";
    const char *folder = mkdtemp(in_memory);
    if (!folder)
        folder = mkdtemp(elsewhere);
    if (!folder)
        finding("no folder %s", elsewhere);
    return folder;
}

char *input_text(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

void check_message(const lab_message *why) {
    const char *end = memchr(why->text, 0, sizeof why->text);
    if (!end || end == why->text)
        finding("refused without a message");
    for (const char *at = why->text; at < end; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            finding("a message with a control code: %s", why->text);
}

FILE *nowhere(void) {
    static FILE *stream;
    if (!stream)
        stream = fopen("/dev/null", "w");
    return stream;
}
