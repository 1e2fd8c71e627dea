/* plan_device.h: a GPU for the planner: its limits and its rates, each with its source.
 *
 * A device is a file of devices/, or the GPU of this machine. Thread: every function here is
 * safe. */
#ifndef LAB_PLAN_DEVICE_H
#define LAB_PLAN_DEVICE_H

#include <stdbool.h>

#include "cuda/device.h"
#include "lab/base/message.h"

typedef enum lab_rate_kind {
    LAB_RATE_CLOCK,       /* clocks per second; the rates below that are per clock assume it */
    LAB_RATE_TENSOR,      /* operations per second: 16-bit inputs, float32 sums, dense */
    LAB_RATE_MEMORY,      /* bytes per second to and from memory */
    LAB_RATE_EXP,         /* exponentials per clock on one SM */
    LAB_RATE_FP32,        /* float32 instructions of one thread, per clock on one SM */
    LAB_RATE_SHARED,      /* bytes of shared memory per clock on one SM */
    LAB_RATE_TENSOR_SEEN, /* as LAB_RATE_TENSOR, the highest measured; may be 0 */
    LAB_RATE_MMA_SEEN,    /* the same with mma.sync, the instruction of the sm80 kernels; may be
                           * 0 */
    LAB_RATE_MEMORY_SEEN, /* as LAB_RATE_MEMORY, the highest measured; may be 0 */
    LAB_RATE_COUNT
} lab_rate_kind;

typedef struct lab_rate {
    double value; /* 0: unknown */
    char source[128];
} lab_rate;

typedef struct lab_device {
    char from[1024]; /* the file, or "cuda:0" */
    att_cuda_limits limits;
    lab_rate rates[LAB_RATE_COUNT];
    bool fitted; /* the library's time models were fitted on this device; only in its file */
} lab_device;

/* Read a device: NAME.json of devices/, found as described in lab/base/data_file.h with the
 * variable ATTEST_DEVICES, or a path. Fails naming the file and the field at fault, or the
 * existing devices. */
bool lab_device_read(lab_device *device, const char *name, lab_message *why);

/* The GPU `index` of this machine: limits from its driver, rates from the device file of its
 * name, scaled to the clock that the driver reports; without such a file, from its clocks and
 * compute capability. Fails if there is no such GPU. */
bool lab_device_live(lab_device *device, int index, lab_message *why);

/* The device file for a GPU with that name; false if there is none. */
bool lab_device_named(lab_device *device, const char *gpu_name);

/* The field of a device file that holds the rate, "clock_hz" ... */
const char *lab_rate_name(lab_rate_kind kind);

/* Call `visit` with every name that lab_device_read() knows, sorted. */
void lab_device_each(void (*visit)(const char *name, void *state), void *state);

/* The same names, separated by ", ". */
void lab_device_names(char *buf, size_t n);

#endif
