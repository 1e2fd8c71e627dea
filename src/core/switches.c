/* switches.c: the table of switches. */
#include "core/switches.h"

#include "core/family.h"

#define ATT_SWITCH(file, macro, what) extern const att_family att_family_##file;
#include "kernels/switches.def"

static const att_switch switches[] = {
#define ATT_SWITCH(file, macro, what)                                                          \
    {.family = &att_family_##file, .source = #file, .name = #macro, .text = what},
#include "kernels/switches.def"
};

const att_switch *att_switch_at(size_t i) {
    return i < sizeof switches / sizeof switches[0] ? &switches[i] : NULL;
}

const att_switch *att_switch_of(const att_family *family, size_t i) {
    for (size_t at = 0; at < sizeof switches / sizeof switches[0]; at++)
        if (switches[at].family == family && i-- == 0)
            return &switches[at];
    return NULL;
}

size_t att_switch_count(const att_family *family) {
    size_t count = 0;
    while (att_switch_of(family, count))
        count++;
    return count;
}
