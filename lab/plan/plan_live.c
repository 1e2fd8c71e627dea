/* plan_live.c: the GPU of this machine as a device to plan for. */
#include <stdio.h>
#include <string.h>

#include "lab/plan/plan_device.h"

/* Rates of an SM per clock, by compute capability, for GPUs without a device file. */
static const struct {
    int cc;
    double tensor; /* operations, 16-bit inputs and float32 sums */
    double fp32;
} per_clock[] = {{80, 2048, 64}, {86, 1024, 128}, {89, 1024, 128}, {90, 4096, 128}};

static void set(lab_rate *rate, double value, const char *source) {
    rate->value = value;
    snprintf(rate->source, sizeof rate->source, "%s", source);
}

/* Rates from the driver's clocks. A GPU newer than the table is assumed to match the last
 * entry. */
static void rates_from_clocks(lab_device *device) {
    const att_cuda_limits *l = &device->limits;
    size_t row = 0;
    while (row + 1 < sizeof per_clock / sizeof per_clock[0] && per_clock[row + 1].cc <= l->cc)
        row++;
    const double clock = 1e3 * l->clock_khz;
    static const char guide[] = "guide: CUDA C++ Programming Guide, arithmetic instructions";
    set(&device->rates[LAB_RATE_CLOCK], clock, "measured: clock that the driver tells");
    set(&device->rates[LAB_RATE_TENSOR], per_clock[row].tensor * l->sms * clock,
        "guide: operations a clock of this compute capability, at the driver's clock");
    set(&device->rates[LAB_RATE_MEMORY], 2e3 * l->memory_clock_khz * l->memory_bus_bits / 8.0,
        "measured: memory clock and bus width that the driver tells");
    set(&device->rates[LAB_RATE_EXP], 16.0, guide);
    set(&device->rates[LAB_RATE_FP32], per_clock[row].fp32, guide);
    set(&device->rates[LAB_RATE_SHARED], 128.0, guide);
}

typedef struct search {
    const char *name; /* of the GPU */
    lab_device found;
    bool ok;
} search;

static void compare_name(const char *name, void *state) {
    search *s = state;
    lab_device candidate;
    if (!s->ok && lab_device_read(&candidate, name, NULL) &&
        strcmp(candidate.limits.name, s->name) == 0) {
        s->found = candidate;
        s->ok = true;
    }
}

/* Rates of the device file; those that depend on the clock are scaled to the driver's clock. */
static void rates_from_file(lab_device *device, const lab_device *file) {
    memcpy(device->rates, file->rates, sizeof device->rates);
    const double clock = 1e3 * device->limits.clock_khz;
    if (clock <= 0.0)
        return;
    device->rates[LAB_RATE_TENSOR].value *= clock / file->rates[LAB_RATE_CLOCK].value;
    set(&device->rates[LAB_RATE_CLOCK], clock, "measured: clock that the driver tells");
}

bool lab_device_named(lab_device *device, const char *gpu_name) {
    search s = {.name = gpu_name};
    lab_device_each(compare_name, &s);
    if (s.ok)
        *device = s.found;
    return s.ok;
}

bool lab_device_live(lab_device *device, int index, lab_message *why) {
    *device = (lab_device){.from = ""};
    att_cuda_device *gpu;
    if (att_cuda_device_open(&gpu, index) != ATT_OK)
        return lab_fail(why, "%s", att_last_error()->text);
    snprintf(device->from, sizeof device->from, "cuda:%d", index);
    device->limits = *att_cuda_device_limits(gpu);
    lab_device file;
    if (lab_device_named(&file, device->limits.name))
        rates_from_file(device, &file);
    else
        rates_from_clocks(device);
    return true;
}
