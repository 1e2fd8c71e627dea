/* nvml.h: clocks, power and temperature of a GPU, from NVIDIA's management library if it is
 * installed.
 *
 * libnvidia-ml.so.1 is opened with dlopen (the environment variable ATTEST_LIBNVML names
 * another file). If it is missing or does not know the GPU, there are no readings and nothing
 * else changes. */
#ifndef LAB_NVML_H
#define LAB_NVML_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/base/message.h"

/* Why the clocks are lower than they could be; NVML's own bits. */
enum {
    LAB_SLOW_POWER_CAP = 0x4,    /* at the power limit: the steady state of a loaded GPU */
    LAB_SLOW_HARDWARE = 0x8,     /* the hardware protects itself */
    LAB_SLOW_THERMAL = 0x20,     /* too hot, as measured by the driver */
    LAB_SLOW_HW_THERMAL = 0x40,  /* too hot, as measured by the hardware */
    LAB_SLOW_POWER_BRAKE = 0x80, /* the power supply asks for less */
    /* A sample taken under one of these says nothing about the kernel. */
    LAB_SLOW_THROTTLED =
        LAB_SLOW_HARDWARE | LAB_SLOW_THERMAL | LAB_SLOW_HW_THERMAL | LAB_SLOW_POWER_BRAKE
};

typedef struct lab_gpu_reading {
    double clock_mhz, memory_clock_mhz, power_w, temperature_c; /* NaN if unknown */
    unsigned slow;                                              /* bits above; 0 if unknown */
} lab_gpu_reading;

typedef struct lab_nvml lab_nvml;

/* The GPU of that UUID; NULL, with the reason, if no readings are available. */
lab_nvml *lab_nvml_open(const char *uuid, lab_message *why);
void lab_nvml_close(lab_nvml *nvml);

void lab_nvml_read(lab_nvml *nvml, lab_gpu_reading *reading);

/* The driver's version, "580.95.05", into buf; false if unknown. */
bool lab_nvml_driver(lab_nvml *nvml, char *buf, size_t n);

/* Writes the bits of LAB_SLOW_* as words, comma-separated, into buf. */
void lab_slow_reasons(unsigned slow, char *buf, size_t n);

#endif
