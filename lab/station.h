/* station.h: one case while it is timed: its subject made ready, its inputs, its outputs, its clock. */
#ifndef LAB_STATION_H
#define LAB_STATION_H

#include "lab/bench.h"
#include "lab/device_memory.h"
#include "lab/device_timer.h"
#include "lab/tensors.h"

typedef struct lab_station {
    lab_bench_case *owner;
    lab_prepared prepared;
    lab_tensors *tensors;
    lab_buffer workspace;
    lab_mirror mirror;
    lab_device_timer timer; /* on a GPU */
    double estimate_ns;     /* of one call */
    size_t capacity;        /* of the owner's samples */
    uint64_t seed;          /* of the inputs that it began with */
    uint64_t answer;        /* hash of the outputs to them, in the first round */
    size_t next_judged;     /* the round whose answer is judged next */
} lab_station;

/* Subject, inputs, workspace. False where the case cannot be timed; the case then says why. */
bool lab_station_open(lab_station *station, lab_bench_case *c, uint64_t seed);
void lab_station_close(lab_station *station);

/* The timing of the case ends here: it failed, or was refused. Both return false. */
bool lab_station_stop(lab_station *station, lab_outcome outcome, const char *text);

/* The same for a failure whose status is the library's latest. */
bool lab_station_failed(lab_station *station, const char *text);

/* One call, not timed. */
bool lab_station_run(lab_station *station);

/* Time the calls of one sample; *ns is the time of one call. */
bool lab_station_time(lab_station *station, double *ns);

/* How many calls a sample has from now on. */
bool lab_station_set_calls(lab_station *station, size_t calls);

/* Run for so long, then decide how many calls make a sample. */
bool lab_station_warm_up(lab_station *station, double seconds);

/* Take one sample and keep it. `first` and `last` rounds, and some that nobody can foretell in between,
 * are on inputs that the subject has not seen and on poisoned outputs, and the answer is judged
 * (lab/station_judge.h). False where memory ran out; a failure ends the timing of this case only. */
bool lab_station_sample(lab_station *station, size_t round, bool last);

#endif
