/* machine.c: names of instruction sets, devices and the compiler. */
#include "lab/base/machine.h"

#include <string.h>

#include "cpu/features.h"
#include "cuda/device.h"

static const char *const isa_names[] = {
    [ATT_ISA_AUTO] = "auto",     [ATT_ISA_PORTABLE] = "portable",       [ATT_ISA_AVX2] = "avx2",
    [ATT_ISA_AVX512] = "avx512", [ATT_ISA_AVX512_BF16] = "avx512_bf16", [ATT_ISA_AMX] = "amx",
    [ATT_ISA_NEON] = "neon",
};
enum { ISA_COUNT = sizeof isa_names / sizeof isa_names[0] };

const char *lab_isa_name(att_isa isa) {
    return (unsigned)isa < ISA_COUNT ? isa_names[isa] : "unknown";
}

bool lab_isa_includes(att_isa has, att_isa needs) {
    return att_isa_includes(has, needs);
}

bool lab_isa_parse(att_isa *isa, const char *name) {
    for (int i = 0; i < ISA_COUNT; i++) {
        if (strcmp(name, isa_names[i]) == 0) {
            *isa = (att_isa)i;
            return true;
        }
    }
    return false;
}

const char *lab_device_name(att_device device) {
    switch (device) {
    case ATT_DEVICE_AUTO:
        return "auto";
    case ATT_DEVICE_CPU:
        return "cpu";
    case ATT_DEVICE_CUDA:
        return "cuda";
    }
    return "unknown";
}

const char *lab_origin_name(att_origin origin) {
    switch (origin) {
    case ATT_FROM_NOWHERE:
        return "none";
    case ATT_FROM_LIBRARY:
        return "library";
    case ATT_FROM_PTX:
        return "ptx";
    case ATT_FROM_SOURCE:
        return "source";
    }
    return "unknown";
}

int lab_gpu_count(lab_message *why) {
    char text[256];
    const int count = att_cuda_device_count(text, sizeof text);
    if (count == 0)
        lab_fail(why, "%s", text);
    return count;
}

const char *lab_compiler(void) {
#if defined(__clang__)
    return __VERSION__; /* begins with its vendor's name */
#else
    return "gcc " __VERSION__;
#endif
}
