/* fake_nvml.c: a management library without a GPU: 1980 MHz, 350.5 W, 55 degrees. */
#include "tests/fake_cuda/fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static fake_nvml state = {.throttle_every = -1};

EXPORT fake_nvml *fake_nvml_state(void);
EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
EXPORT int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz);
EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
EXPORT int nvmlDeviceGetTemperature(void *device, int kind, unsigned *celsius);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons);
EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned bytes);

fake_nvml *fake_nvml_state(void) {
    return &state;
}

int nvmlInit_v2(void) {
    if (state.throttle_every < 0) {
        const char *every = getenv("FAKE_NVML_THROTTLE");
        state.throttle_every = every ? strtol(every, NULL, 10) : 0;
    }
    state.open += state.init_code == 0;
    return state.init_code;
}

int nvmlShutdown(void) {
    state.open--;
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    snprintf(state.uuid, sizeof state.uuid, "%s", uuid);
    *device = &state;
    return state.handle_code;
}

int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz) {
    *mhz = kind == 1 ? 1980 : 3201;
    return device == &state ? state.reading_code : 1;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    *milliwatts = 350500;
    return device == &state ? state.reading_code : 1;
}

int nvmlDeviceGetTemperature(void *device, int kind, unsigned *celsius) {
    *celsius = 55;
    return device == &state && kind == 0 ? state.reading_code : 1;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    enum { IDLE = 1, THERMAL = 0x20 };
    state.readings++;
    *reasons = state.reasons | IDLE;
    if (state.throttle_every > 0 && state.readings % state.throttle_every == 0)
        *reasons |= THERMAL;
    return device == &state ? state.reading_code : 1;
}

int nvmlSystemGetDriverVersion(char *text, unsigned bytes) {
    snprintf(text, bytes, "580.12.34");
    return state.reading_code;
}
