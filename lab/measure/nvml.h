/* nvml.h: clocks, power and temperature of a GPU, through NVIDIA's management library where there is one.
 *
 * libnvidia-ml.so.1 is opened by dlopen (the environment's ATTEST_LIBNVML names another file); where it is
 * not there, or does not know the GPU, there are no readings and nothing else changes. */
#ifndef LAB_NVML_H
#define LAB_NVML_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/base/message.h"

/* Why the clocks are below what they could be; NVML's own bits. */
enum {
    LAB_SLOW_POWER_CAP = 0x4,    /* at the power limit: how a loaded GPU runs for good */
    LAB_SLOW_HARDWARE = 0x8,     /* the hardware protects itself */
    LAB_SLOW_THERMAL = 0x20,     /* too hot, by the driver's measure */
    LAB_SLOW_HW_THERMAL = 0x40,  /* too hot, by the hardware's */
    LAB_SLOW_POWER_BRAKE = 0x80, /* the supply asks for less */
    /* A sample taken under one of these says nothing about the kernel. */
    LAB_SLOW_THROTTLED =
        LAB_SLOW_HARDWARE | LAB_SLOW_THERMAL | LAB_SLOW_HW_THERMAL | LAB_SLOW_POWER_BRAKE
};

typedef struct lab_gpu_reading {
    double clock_mhz, memory_clock_mhz, power_w, temperature_c; /* NaN where not told */
    unsigned slow; /* bits above; 0 where not told */
} lab_gpu_reading;

typedef struct lab_nvml lab_nvml;

/* The GPU of that UUID; NULL, with the reason, where there are no readings to be had. */
lab_nvml *lab_nvml_open(const char *uuid, lab_message *why);
void lab_nvml_close(lab_nvml *nvml);

void lab_nvml_read(lab_nvml *nvml, lab_gpu_reading *reading);

/* The driver's version, "580.95.05", into buf; false where it is not told. */
bool lab_nvml_driver(lab_nvml *nvml, char *buf, size_t n);

/* The bits of LAB_SLOW_* in words, with commas, into buf. */
void lab_slow_reasons(unsigned slow, char *buf, size_t n);

#endif
