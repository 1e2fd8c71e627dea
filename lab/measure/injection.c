/* injection.c: the list. LD_LIBRARY_PATH is not on it: GPU containers set it to the folder of
 * the driver. */
#include "lab/measure/injection.h"

#include <stddef.h>
#include <stdlib.h>

static const struct {
    const char *name, *reason;
} injections[] = {
    {"LD_PRELOAD", "puts a library before those of the program"},
    {"LD_AUDIT", "lets a library replace what the program calls"},
    {"CUDA_INJECTION64_PATH", "has the driver load a library into the program"},
    {"NVTX_INJECTION64_PATH", "has a library loaded into the program"},
    {"CUDA_FORCE_PTX_JIT", "has the driver compile PTX in place of the attested machine code"},
    {"CUDA_FORCE_JIT", "has the driver compile in place of the attested machine code"},
    {"CUDA_DEVICE_WAITS_ON_EXCEPTION", "runs kernels under a debugger"},
    {"CUDA_LAUNCH_BLOCKING", "makes every launch wait, so that times are not a caller's"},
    {"NVIDIA_TF32_OVERRIDE", "changes the precision of what is computed"},
    {"ATTEST_LIBCUDA", "puts another file in the place of the driver"},
    {"ATTEST_LIBNVRTC", "puts another file in the place of the compiler"},
    {"ATTEST_LIBCUBLAS", "puts another file in the place of cuBLAS"},
    {"ATTEST_LIBNVML", "puts another file in the place of what reads clocks"},
    {"ATTEST_JIT", "compiles kernels in place of the library's machine code"},
    {"ATTEST_KERNEL", "forces a kernel where the library would choose"},
    {"ATTEST_LAB_EXACT", "leaves out the guards around GPU memory"},
};

bool lab_injection_found(lab_message *why) {
    for (size_t i = 0; i < sizeof injections / sizeof injections[0]; i++) {
        const char *value = getenv(injections[i].name);
        if (!value || !*value)
            continue;
        lab_fail(why, "%s is set, which %s: unset it, and certify again", injections[i].name,
                 injections[i].reason);
        return true;
    }
    return false;
}
