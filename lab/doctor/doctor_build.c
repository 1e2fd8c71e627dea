/* doctor_build.c: the program itself: its data files, and the machine code in it. */
#include <string.h>

#include "base/sha256.h"
#include "cuda/device.h"
#include "cuda/embed.h"
#include "lab/base/machine.h"
#include "lab/doctor/doctor.h"
#include "lab/plan/plan_device.h"
#include "lab/problem/suite.h"

static const char reinstall[] =
    "build or install attest again; the program finds its data beside itself";

static void check_data(lab_doctor *doctor) {
    lab_suite suite;
    lab_device device;
    lab_message why;
    if (!lab_suite_read(&suite, "seed", &why)) {
        lab_doctor_add(doctor, LAB_WARN, "data", reinstall, "%s", why.text);
        return;
    }
    lab_suite_free(&suite);
    if (!lab_device_read(&device, "l4", &why))
        lab_doctor_add(doctor, LAB_WARN, "data", reinstall, "%s", why.text);
    else
        lab_doctor_add(doctor, LAB_FINE, "data", NULL, "suites and devices are found");
}

/* Check that every piece of machine code has the digest from the build. */
static void check_code(lab_doctor *doctor) {
    size_t count = 0, kernels = 0, bytes = 0;
    const char *last = "";
    for (const att_embedded_code *code = att_embedded_codes; code->id; code++) {
        char digest[ATT_SHA256_HEX];
        att_sha256_of(code->bytes, code->size, digest);
        if (strcmp(digest, code->sha256) != 0) {
            lab_doctor_add(
                doctor, LAB_FAILED, "code",
                "the file is damaged: build or install attest again",
                "%s for compute capability %d has the digest %.16s..., but was built with "
                "%.16s...",
                code->id, code->cc, digest, code->sha256);
            return;
        }
        count++;
        bytes += code->size;
        kernels += strcmp(code->id, last) != 0;
        last = code->id;
    }
    char why[256];
    if (count == 0 && att_cuda_device_count(why, sizeof why) == 0)
        lab_doctor_add(doctor, LAB_FINE, "code", NULL,
                       "built without nvcc: no machine code for GPUs, and no GPU here");
    else if (count == 0)
        lab_doctor_add(doctor, LAB_WARN, "code",
                       "build attest where nvcc is installed; until then, NVRTC is needed to "
                       "compile each kernel when it is first used",
                       "the library was built without nvcc: it holds no machine code for GPUs");
    else
        lab_doctor_add(
            doctor, LAB_FINE, "code", NULL,
            "%zu GPU kernels, %zu pieces of machine code, %.1f MiB; every digest matches",
            kernels, count, (double)bytes / 0x1p20);
}

void lab_doctor_build(lab_doctor *doctor) {
    if (strcmp(att_version(), ATT_VERSION_STRING) == 0)
        lab_doctor_add(doctor, LAB_FINE, "build", NULL, "attest %s, built with %s",
                       att_version(), lab_compiler());
    else
        lab_doctor_add(doctor, LAB_FAILED, "build", "build or install attest again",
                       "the program is attest %s, its library %s", ATT_VERSION_STRING,
                       att_version());
    check_data(doctor);
    check_code(doctor);
}
