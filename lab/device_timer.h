/* device_timer.h: the time of runs on a GPU, by the GPU's own clock.
 *
 * The runs are captured into a CUDA graph, which is replayed between two events: what is measured is the
 * GPU's time, not the host's cost of launching. */
#ifndef LAB_DEVICE_TIMER_H
#define LAB_DEVICE_TIMER_H

#include "attest.h"
#include "lab/device_memory.h"
#include "lab/message.h"
#include "lab/subject.h"

typedef struct lab_device_timer {
    lab_mirror *mirror; /* NULL: not open */
    size_t calls;       /* runs in the graph */
    void *graph, *exec, *start, *end;
} lab_device_timer;

/* Capture `calls` runs on the mirror, which must be on a GPU. */
bool lab_device_timer_open(lab_device_timer *timer, lab_mirror *mirror,
                           const lab_prepared *prepared, size_t calls, lab_message *why);

/* Replay once and wait; *ns is the time of one run. */
bool lab_device_timer_sample(lab_device_timer *timer, double *ns, lab_message *why);

void lab_device_timer_close(lab_device_timer *timer);

#endif
