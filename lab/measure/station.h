/* station.h: one case while it is timed: its subject made ready, its inputs, its outputs, its clock. */
#ifndef LAB_STATION_H
#define LAB_STATION_H

#include "lab/measure/bench.h"
#include "lab/measure/cache_flush.h"
#include "lab/subject/device_timer.h"
#include "lab/tensors/device_memory.h"
#include "lab/tensors/tensors.h"

/* One copy of everything that a call reads and writes. */
typedef struct lab_input_set {
    lab_tensors *tensors;
    lab_buffer workspace;
    lab_mirror mirror;
    uint64_t seed;   /* of the inputs that it began with */
    uint64_t answer; /* hash of the outputs to them, in the first round */
} lab_input_set;

/* What the inputs of each set are turned by now (lab/measure/station_turn.h). */
typedef struct lab_turns {
    bool turned[LAB_INPUT_SETS];
    uint64_t seed[LAB_INPUT_SETS];
} lab_turns;

/* Probes that were taken (lab/measure/station_probe.h). */
typedef struct lab_probes {
    size_t count;
    size_t slower; /* than the sample beside them */
    double fastest_ns,
        fastest_beside_ns; /* a call of the probes, and of the samples beside them */
} lab_probes;

typedef struct lab_station {
    lab_bench_case *owner;
    const lab_bench_options *options;
    lab_prepared prepared;
    lab_input_set sets[LAB_INPUT_SETS];
    size_t set_count;
    lab_mirror *mirrors[LAB_INPUT_SETS]; /* those of the sets */
    lab_device_timer timer;              /* on a GPU */
    lab_nvml *nvml;                      /* on a GPU that gives readings, else NULL */
    lab_cache_flush *flush;              /* of all stations */
    double estimate_ns;                  /* of one call */
    size_t turn;                         /* on the CPU, the set of the next call */
    size_t capacity;                     /* of the owner's samples */
    size_t next_renewed;                 /* the round that has new inputs next */
    uint64_t first_turn;                 /* what the inputs of the first round are turned by */
    lab_turns turns;
    size_t first_used; /* the set of the first call of the last sample; the others follow it */
    lab_probes probes;
} lab_station;

/* Of the stations, which are open, one of the case's problem on its device; NULL: none. */
const lab_station *lab_station_lender(const lab_station *stations, size_t count,
                                      const lab_bench_case *c);

/* Subject, inputs, workspace. False where the case cannot be timed; the case then says why. The station
 * must stay where it is, and what it is given outlive it. With a lender its tensors are the lender's: where memory lies
 * makes a difference of some per cent, which would be taken for one of the cases. */
bool lab_station_open(lab_station *station, lab_bench_case *c, const lab_bench_options *options,
                      lab_cache_flush *flush, const lab_station *lender);
void lab_station_close(lab_station *station);

/* Whether it computes on a GPU. */
bool lab_station_on_gpu(const lab_station *station);

/* The timing of the case ends here: it failed, or was refused. Both return false. */
bool lab_station_stop(lab_station *station, lab_outcome outcome, const char *text);

/* The same for a failure whose status is the library's latest. */
bool lab_station_failed(lab_station *station, const char *text);

/* Run for so long, then decide how many calls make a sample. */
bool lab_station_warm_up(lab_station *station, double seconds);

/* As many calls as the case of the same problem that has most: the ends of a sample weigh less the more there are. */
bool lab_station_agree(lab_station *station, const lab_station *stations, size_t count);

/* Call `i` of a sample on the CPU, on the set whose turn it is; and the calls of a sample, or what brings as much into the
 * cache, untimed. A failure ends the timing of the case. */
bool lab_station_call(lab_station *station, size_t i);
bool lab_station_lead(lab_station *station);

/* Time the calls of one sample; *ns is the time of one call. */
bool lab_station_time(lab_station *station, double *ns);

/* Take one sample and keep it. `first` and `last` rounds, and some that nobody can foretell in between,
 * are on inputs that the subject has not seen and on poisoned outputs, and the answer is judged
 * (lab/measure/station_judge.h). On the CPU so may be any other: every sample has turned inputs and marked outputs, and
 * whether it is judged is decided when it has been taken. False where memory ran out; a failure ends the timing of this case only. */
bool lab_station_sample(lab_station *station, size_t round, bool last);

#endif
