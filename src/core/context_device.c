/* context_device.c: which device a context is for. */
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "base/error.h"

att_status att_environment_switch(bool *value, const char *name) {
    const char *text = getenv(name);
    if (!text || !*text)
        return ATT_OK;
    ATT_REQUIRE(strcmp(text, "0") == 0 || strcmp(text, "1") == 0, ATT_E_ARG, name,
                "%s=%.40s is neither 0 nor 1", name, text);
    *value = *text == '1';
    return ATT_OK;
}

/* "cpu", "cuda" or "cuda:N". */
static bool read_device(const char *text, att_device *device, int32_t *index) {
    *index = 0;
    if (strcmp(text, "cpu") == 0 || strcmp(text, "cuda") == 0) {
        *device = text[1] == 'p' ? ATT_DEVICE_CPU : ATT_DEVICE_CUDA;
        return true;
    }
    const char *digits = text + 5;
    if (strncmp(text, "cuda:", 5) != 0 || strlen(digits) < 1 || strlen(digits) > 4 ||
        strspn(digits, "0123456789") != strlen(digits))
        return false;
    *device = ATT_DEVICE_CUDA;
    *index = (int32_t)strtol(digits, NULL, 10);
    return true;
}

/* Is there a kernel with code for this GPU that serves problems, and not merely helps
 * another? */
static bool has_code(const att_cuda_device *gpu) {
    const int cc = att_cuda_device_limits(gpu)->cc;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_cuda_kernel *kernel = att_registry_row(i)->cuda;
        if (kernel && !att_role_helps(kernel->role) &&
            att_cuda_origin_of(kernel, cc) != ATT_ORIGIN_NONE)
            return true;
    }
    return false;
}

/* The first GPU that is new enough and has code; finding none is not an error. A GPU that
 * should work but does not is an error: continuing without it would be silently slow. */
static att_status find_gpu(att_cuda_device **out) {
    const int count = att_cuda_device_count(NULL, 0);
    for (int i = 0; i < count; i++) {
        att_cuda_device *gpu;
        const att_status status = att_cuda_device_open(&gpu, i);
        if (status == ATT_E_DEVICE)
            continue;
        ATT_TRY(status);
        if (has_code(gpu)) {
            *out = gpu;
            return ATT_OK;
        }
    }
    return ATT_OK;
}

att_status att_context_choose_gpu(att_cuda_device **out, const att_context_options *o) {
    *out = NULL;
    att_device device = o->device;
    int32_t index = o->device_index;
    const char *text = getenv("ATTEST_DEVICE");
    if (device == ATT_DEVICE_AUTO && (o->isa != ATT_ISA_AUTO || o->threads != 0))
        device = ATT_DEVICE_CPU; /* only a CPU has these */
    if (device == ATT_DEVICE_AUTO && text && *text)
        ATT_REQUIRE(read_device(text, &device, &index), ATT_E_ARG, "ATTEST_DEVICE",
                    "ATTEST_DEVICE=%.40s is none of cpu, cuda, cuda:N", text);
    switch (device) {
    case ATT_DEVICE_AUTO:
        return find_gpu(out);
    case ATT_DEVICE_CUDA:
        return att_cuda_device_open(out, index);
    default:
        return ATT_OK;
    }
}
