/* switches.c: the table of switches. */
#include "core/switches.h"

#include <string.h>

static const att_switch switches[] = {
#define ATT_SWITCH(file, macro, what) {.source = #file, .name = #macro, .text = what},
#include "kernels/switches.def"
};

const att_switch *att_switch_at(size_t i) {
    return i < sizeof switches / sizeof switches[0] ? &switches[i] : NULL;
}

const att_switch *att_switch_of(const char *source, size_t i) {
    for (size_t at = 0; at < sizeof switches / sizeof switches[0]; at++)
        if (strcmp(switches[at].source, source) == 0 && i-- == 0)
            return &switches[at];
    return NULL;
}

size_t att_switch_count(const char *source) {
    size_t count = 0;
    while (att_switch_of(source, count))
        count++;
    return count;
}
