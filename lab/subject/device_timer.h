/* device_timer.h: the time of runs on a GPU, in one of three ways.
 *
 *   graph    the runs are captured into a CUDA graph, which is replayed between two events: the
 *            GPU's time, without the host's cost of launching
 *   events   the runs are launched one by one between two events: the GPU's time in a program
 *            without graphs, including gaps if the host launches more slowly than the GPU runs
 *   latency  the host's time from entering a run to its return, on a stream that was empty
 *            before: the cost of a call for the caller, whatever the GPU does meanwhile
 *
 * Runs take the copies of the inputs in turn. Work put on the stream before the sample (the
 * same runs untimed, or a flush) keeps the GPU busy while the host enqueues, so that the first
 * event is not followed by a wait for the host. */
#ifndef LAB_DEVICE_TIMER_H
#define LAB_DEVICE_TIMER_H

#include "attest.h"
#include "lab/base/message.h"
#include "lab/subject/subject.h"
#include "lab/tensors/device_memory.h"

typedef enum lab_timer {
    LAB_TIMER_GRAPH, /* on a GPU; on the CPU always the clock around the calls */
    LAB_TIMER_EVENTS,
    LAB_TIMER_LATENCY,
    LAB_TIMER_COUNT
} lab_timer;

/* "graph", "events", "latency". */
const char *lab_timer_name(lab_timer kind);

/* What is timed. */
typedef struct lab_timed_runs {
    const lab_prepared *prepared;
    lab_mirror *const *mirrors; /* on one GPU; uses the stream of the first */
    size_t mirror_count;        /* >= 1 */
    size_t calls;               /* runs per sample; its time is divided by this */
    size_t extra;               /* extra runs that are not counted: a deliberate slow-down */
} lab_timed_runs;

typedef struct lab_device_timer {
    lab_timer kind;
    lab_timed_runs runs;  /* prepared is NULL: not open */
    lab_mirror *only;     /* for lab_device_timer_open() */
    size_t samples, late; /* taken; and those after which other streams were still busy */
    void *graph, *exec, *start, *end;
} lab_device_timer;

/* What `runs` points to must outlive the timer. */
bool lab_device_timer_open_runs(lab_device_timer *timer, lab_timer kind,
                                const lab_timed_runs *runs, lab_message *why);

/* `calls` runs on one mirror, by a graph. The timer must stay where it is. */
bool lab_device_timer_open(lab_device_timer *timer, lab_mirror *mirror,
                           const lab_prepared *prepared, size_t calls, lab_message *why);

/* Put the runs of one sample on the stream, untimed, without waiting (the latency timer
 * waits). */
bool lab_device_timer_lead(lab_device_timer *timer, lab_message *why);

/* Run one sample and wait; *ns is the time per run. */
bool lab_device_timer_sample(lab_device_timer *timer, double *ns, lab_message *why);

/* The nodes of a captured sample. */
typedef struct lab_graph_nodes {
    size_t kernels, copies, fills, others;
} lab_graph_nodes;

/* Count the nodes of the graph; all 0 if there is no graph. */
bool lab_device_timer_nodes(const lab_device_timer *timer, lab_graph_nodes *nodes,
                            lab_message *why);

/* Whether the time missed some work: after most samples other streams were still busy. */
bool lab_device_timer_missed_work(const lab_device_timer *timer);

void lab_device_timer_close(lab_device_timer *timer);

#endif
