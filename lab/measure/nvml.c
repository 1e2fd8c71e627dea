/* nvml.c: the few functions of libnvidia-ml.so.1 that a benchmark needs. */
#include "lab/measure/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NVML's own constants. */
enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_TEMPERATURE_GPU = 0 };

typedef int (*call_plain)(void);
typedef int (*call_handle)(const char *uuid, void **device);
typedef int (*call_unsigned)(void *device, unsigned *value);
typedef int (*call_kind)(void *device, int kind, unsigned *value);
typedef int (*call_bits)(void *device, unsigned long long *value);
typedef int (*call_text)(char *text, unsigned bytes);

struct lab_nvml {
    void *library, *device;
    call_plain shutdown;
    call_kind clock, temperature;
    call_unsigned power;
    call_bits reasons;
    call_text driver;
};

/* ISO C has no conversion from an object pointer to a function pointer; POSIX has this one. */
#define SET_FUNCTION(function, library, name)                                                  \
    (*(void **)(&(function)) = dlsym(library, name), (function) != NULL)

static bool load(lab_nvml *n, const char *uuid, lab_message *why) {
    call_plain init;
    call_handle handle;
    if (!SET_FUNCTION(init, n->library, "nvmlInit_v2") ||
        !SET_FUNCTION(handle, n->library, "nvmlDeviceGetHandleByUUID") ||
        !SET_FUNCTION(n->shutdown, n->library, "nvmlShutdown"))
        return lab_fail(why, "the management library is not NVML");
    int code = init();
    if (code != NVML_SUCCESS) {
        n->shutdown = NULL;
        return lab_fail(why, "NVML does not start: nvmlInit_v2 gives %d", code);
    }
    code = handle(uuid, &n->device);
    if (code != NVML_SUCCESS)
        return lab_fail(why, "NVML does not know %s: nvmlDeviceGetHandleByUUID gives %d", uuid,
                        code);
    /* Each of these may be missing: its reading is then unknown. */
    (void)SET_FUNCTION(n->clock, n->library, "nvmlDeviceGetClockInfo");
    (void)SET_FUNCTION(n->temperature, n->library, "nvmlDeviceGetTemperature");
    (void)SET_FUNCTION(n->power, n->library, "nvmlDeviceGetPowerUsage");
    if (!SET_FUNCTION(n->reasons, n->library, "nvmlDeviceGetCurrentClocksEventReasons"))
        (void)SET_FUNCTION(n->reasons, n->library, "nvmlDeviceGetCurrentClocksThrottleReasons");
    (void)SET_FUNCTION(n->driver, n->library, "nvmlSystemGetDriverVersion");
    return true;
}

lab_nvml *lab_nvml_open(const char *uuid, lab_message *why) {
    const char *path = secure_getenv("ATTEST_LIBNVML");
    lab_nvml *n = calloc(1, sizeof *n);
    if (!n) {
        lab_fail(why, "no memory for NVML");
        return NULL;
    }
    n->library = dlopen(path && *path ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        lab_fail(why, "no NVML: %s", dlerror());
    else if (load(n, uuid, why))
        return n;
    lab_nvml_close(n);
    return NULL;
}

void lab_nvml_close(lab_nvml *n) {
    if (!n)
        return;
    if (n->shutdown)
        n->shutdown();
    if (n->library)
        dlclose(n->library);
    free(n);
}

static double of_kind(const lab_nvml *n, call_kind call, int kind) {
    unsigned value;
    return call && call(n->device, kind, &value) == NVML_SUCCESS ? (double)value : (double)NAN;
}

void lab_nvml_read(lab_nvml *n, lab_gpu_reading *reading) {
    unsigned milliwatts;
    unsigned long long reasons;
    reading->clock_mhz = of_kind(n, n->clock, NVML_CLOCK_SM);
    reading->memory_clock_mhz = of_kind(n, n->clock, NVML_CLOCK_MEM);
    reading->temperature_c = of_kind(n, n->temperature, NVML_TEMPERATURE_GPU);
    reading->power_w = n->power && n->power(n->device, &milliwatts) == NVML_SUCCESS
                           ? 1e-3 * (double)milliwatts
                           : (double)NAN;
    reading->slow = n->reasons && n->reasons(n->device, &reasons) == NVML_SUCCESS
                        ? (unsigned)(reasons & (LAB_SLOW_THROTTLED | LAB_SLOW_POWER_CAP))
                        : 0;
}

bool lab_nvml_driver(lab_nvml *nvml, char *buf, size_t n) {
    return nvml->driver && nvml->driver(buf, (unsigned)n) == NVML_SUCCESS;
}

void lab_slow_reasons(unsigned slow, char *buf, size_t n) {
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {{LAB_SLOW_POWER_CAP, "power limit"},
                 {LAB_SLOW_HARDWARE, "hardware slow-down"},
                 {LAB_SLOW_THERMAL, "temperature"},
                 {LAB_SLOW_HW_THERMAL, "temperature (hardware)"},
                 {LAB_SLOW_POWER_BRAKE, "power brake"}};
    size_t used = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0] && used < n; i++)
        if (slow & names[i].bit)
            used +=
                (size_t)snprintf(buf + used, n - used, "%s%s", used ? ", " : "", names[i].name);
}
