/* place.c: turns a device's full name into a folder name. */
#include "lab/evidence/place.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lab/base/machine.h"

/* Words that do not identify the device. */
static const char *const idle_words[] = {"nvidia", "geforce", "tesla",     "intel", "amd",
                                         "r",      "tm",      "processor", "cpu"};

static int is_idle(const char *word, size_t length) {
    for (size_t i = 0; i < sizeof idle_words / sizeof idle_words[0]; i++)
        if (strlen(idle_words[i]) == length && strncasecmp(word, idle_words[i], length) == 0)
            return 1;
    return 0;
}

void lab_place_name(const char *device, char *buf, size_t n) {
    size_t used = 0;
    buf[0] = '\0';
    while (*device) {
        size_t length = 0;
        while (isalnum((unsigned char)device[length]))
            length++;
        if (length > 0 && !is_idle(device, length) && used + length + 2 < n) {
            if (used > 0)
                buf[used++] = '-';
            for (size_t i = 0; i < length; i++)
                buf[used++] = (char)tolower((unsigned char)device[i]);
            buf[used] = '\0';
        }
        device += length ? length : 1;
    }
    if (used == 0)
        snprintf(buf, n, "device");
}

void lab_place_cpu(const char *processor, att_isa isa, char *buf, size_t n) {
    char name[64];
    lab_place_name(processor, name, sizeof name);
    snprintf(buf, n, "%s-%s", name, lab_isa_name(isa));
}
