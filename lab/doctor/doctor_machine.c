/* doctor_machine.c: processor, environment, driver, GPUs, the run-time compiler and its
 * cache. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/device.h"
#include "cuda/jit.h"
#include "cuda/jit_cache.h"
#include "cuda/module.h"
#include "lab/base/machine.h"
#include "lab/doctor/doctor.h"
#include "core/context.h"
#include "core/device_kind.h"
#include "core/registry.h"

#if defined(__x86_64__)
enum { COULD_HAVE_AVX2 = 1 };
#else
enum { COULD_HAVE_AVX2 = 0 };
#endif

/* Are there kernels for `isa` that are off for lack of evidence? */
static bool is_off(att_isa isa) {
    bool allowed = false;
    if (att_environment_switch(&allowed, "ATTEST_ALLOW_UNATTESTED") == ATT_OK && allowed)
        return false;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (row->device == ATT_DEVICE_CPU && row->isa == isa && row->unattested)
            return true;
    }
    return false;
}

static void check_processor(lab_doctor *doctor) {
    const att_context_options options = {.size = sizeof options, .device = ATT_DEVICE_CPU};
    att_context *ctx = NULL;
    att_context_info info = {.size = sizeof info};
    if (att_context_create(&ctx, &options) != ATT_OK || att_context_query(ctx, &info) != ATT_OK)
        lab_doctor_add(
            doctor, LAB_FAILED, "processor",
            "check what the message names: an environment variable, threads or memory", "%s",
            att_last_error()->text);
    else if (info.isa < info.isa_machine)
        lab_doctor_add(doctor, LAB_WARN, "processor", "unset ATTEST_ISA",
                       "%s: has %s, but ATTEST_ISA limits it to %s", info.name,
                       lab_isa_name(info.isa_machine), lab_isa_name(info.isa));
    else if (is_off(info.isa))
        lab_doctor_add(doctor, LAB_WARN, "processor",
                       "run 'attest certify --device cpu' here, then set "
                       "ATTEST_ALLOW_UNATTESTED=1",
                       "%s: %s, but its kernels are unattested and off: plain C is used; %d "
                       "threads",
                       info.name, lab_isa_name(info.isa), (int)info.threads);
    else if (info.isa == ATT_ISA_PORTABLE && COULD_HAVE_AVX2)
        lab_doctor_add(
            doctor, LAB_WARN, "processor", "a processor with AVX2 is many times faster",
            "%s: no AVX2, plain C is used; %d threads", info.name, (int)info.threads);
    else
        lab_doctor_add(doctor, LAB_FINE, "processor", NULL, "%s: %s, %d thread%s", info.name,
                       lab_isa_name(info.isa), (int)info.threads, info.threads == 1 ? "" : "s");
    att_context_destroy(ctx);
}

/* List settings that change what runs, so that none is forgotten. */
static void check_environment(lab_doctor *doctor) {
    static const char *const names[] = {"ATTEST_ISA",    "ATTEST_THREADS", "ATTEST_AMX_F32",
                                        "ATTEST_DEVICE", "ATTEST_KERNEL",  "ATTEST_ALLOW_SLOW",
                                        "ATTEST_JIT",    "ATTEST_LIBCUDA", "ATTEST_LIBNVRTC"};
    char text[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value && *value && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%s",
                                     used ? ", " : "", names[i], value);
    }
    if (used > 0)
        lab_doctor_add(doctor, LAB_WARN, "environment", "unset those that are not intended",
                       "these change what runs: %s", text);
}

static bool file_begins(const char *path, const char *with) {
    char text[32] = "";
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    const bool read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    return read && strncmp(text, with, strlen(with)) == 0;
}

/* Whether there is an NVIDIA GPU on the bus, with any driver. */
static bool gpu_on_bus(void) {
    static const char folder[] = "/sys/bus/pci/devices";
    DIR *list = opendir(folder);
    bool found = false;
    for (struct dirent *d = list ? readdir(list) : NULL; d && !found;
         d = readdir(list)) { // NOLINT
        char vendor[512], class[512];
        snprintf(vendor, sizeof vendor, "%s/%s/vendor", folder, d->d_name);
        snprintf(class, sizeof class, "%s/%s/class", folder, d->d_name);
        found = file_begins(vendor, "0x10de") && file_begins(class, "0x03");
    }
    if (list)
        closedir(list);
    return found;
}

static void check_driver(lab_doctor *doctor) {
    char why[256] = "";
    doctor->gpus = att_cuda_device_count(why, sizeof why);
    if (doctor->gpus > 0)
        return; /* its version is reported with the GPUs */
    if (doctor->device == ATT_DEVICE_CUDA)
        lab_doctor_add(
            doctor, LAB_ABSENT, "driver",
            "install NVIDIA's driver, 525 or newer; in a container, pass the GPU through", "%s",
            why);
    else if (gpu_on_bus())
        lab_doctor_add(
            doctor, LAB_WARN, "driver",
            "install NVIDIA's driver, 525 or newer; in a container, pass the GPU through",
            "this machine has an NVIDIA GPU that cannot be used: %s", why);
    else
        lab_doctor_add(doctor, LAB_FINE, "driver", NULL, "no GPU here, the CPU is used: %s",
                       why);
}

/* Count the rows that have machine code for this GPU, that must be compiled, and that it cannot
 * run. */
static void count_origins(const att_cuda_limits *l, size_t counts[4]) {
    memset(counts, 0, 4 * sizeof counts[0]);
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_cuda_kernel *row = att_registry_row(i)->cuda;
        if (row && row->targets & att_cuda_target_of(l))
            counts[att_cuda_origin_of(row, l->cc)]++;
    }
}

static void check_gpu(lab_doctor *doctor, int index) {
    char what[24];
    snprintf(what, sizeof what, "cuda:%d", index);
    att_cuda_device *gpu;
    if (att_cuda_device_open(&gpu, index) != ATT_OK) {
        const bool asked = doctor->device == ATT_DEVICE_CUDA && doctor->device_index == index;
        lab_doctor_add(doctor, asked ? LAB_ABSENT : LAB_WARN, what,
                       "a GPU needs compute capability 8.0 or newer (Ampere, Ada, Hopper ...); "
                       "a lost GPU recovers when its processes end",
                       "%s", att_last_error()->text);
        return;
    }
    const att_cuda_limits *l = att_cuda_device_limits(gpu);
    size_t counts[4];
    count_origins(l, counts);
    const size_t now = counts[ATT_ORIGIN_EMBEDDED],
                 later = counts[ATT_ORIGIN_PTX] + counts[ATT_ORIGIN_JIT],
                 never = counts[ATT_ORIGIN_NONE];
    lab_doctor_add(
        doctor,
        now > 0           ? LAB_FINE
        : now + later > 0 ? LAB_WARN
                          : LAB_FAILED,
        what,
        now > 0     ? NULL
        : later > 0 ? "a build with nvcc for this GPU saves the time of the first call"
                    : "build where nvcc is, or install NVRTC (the CUDA toolkit) here",
        "%s: compute capability %d.%d, %d SMs, %.1f GiB, driver for CUDA %d.%d; of its "
        "kernels %zu have machine code, %zu are compiled when needed, %zu are not available",
        l->name, l->cc / 10, l->cc % 10, l->sms, (double)l->memory_bytes / 0x1p30,
        l->driver / 1000, l->driver % 1000 / 10, now, later, never);
}

static void check_gpus(lab_doctor *doctor) {
    for (int i = 0; i < doctor->gpus; i++)
        check_gpu(doctor, i);
    if (doctor->device == ATT_DEVICE_CUDA && doctor->gpus > 0 &&
        doctor->device_index >= doctor->gpus)
        lab_doctor_add(doctor, LAB_ABSENT, "gpu",
                       "choose another; CUDA_VISIBLE_DEVICES may hide some",
                       "there is no cuda:%d: the driver shows %d GPU%s", doctor->device_index,
                       doctor->gpus, doctor->gpus == 1 ? "" : "s");
}

static void check_compiler(lab_doctor *doctor) {
    const char *why;
    if (att_jit_available(&why))
        lab_doctor_add(doctor, LAB_FINE, "nvrtc", NULL,
                       "found: kernels that are not built in can be compiled");
    else
        lab_doctor_add(
            doctor, LAB_WARN, "nvrtc",
            "install NVRTC (the CUDA toolkit) if you need kernels outside the built-in set",
            "%s; the built-in kernels do not need it", why);
}

static void check_cache(lab_doctor *doctor) {
    const int fd = att_jit_cache_open(NULL);
    if (fd < 0) {
        lab_doctor_add(doctor, LAB_WARN, "cache",
                       "make ~/.cache/attest (or $XDG_CACHE_HOME/attest) yours and private: "
                       "chmod 700",
                       "no folder can be trusted: compiled kernels are not kept");
        return;
    }
    char link[64], path[400] = "?";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0)
        path[length] = '\0';
    size_t entries = 0;
    double bytes = 0.0;
    DIR *list = fdopendir(fd);
    for (struct dirent *d = list ? readdir(list) : NULL; d; d = readdir(list)) { // NOLINT
        struct stat s;
        if (fstatat(fd, d->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode)) {
            entries++;
            bytes += (double)s.st_size;
        }
    }
    lab_doctor_add(doctor, LAB_FINE, "cache", NULL, "%s: %zu compiled kernels, %.1f MiB", path,
                   entries, bytes / 0x1p20);
    if (list)
        closedir(list);
    else
        close(fd);
}

void lab_doctor_machine(lab_doctor *doctor) {
    check_processor(doctor);
    check_environment(doctor);
    if (doctor->device == ATT_DEVICE_CPU)
        return;
    check_driver(doctor);
    check_gpus(doctor);
    if (doctor->gpus > 0) {
        check_compiler(doctor);
        check_cache(doctor);
    }
}
