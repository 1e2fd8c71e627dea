/* station.h: one case while it is timed: its prepared subject, inputs, outputs and clock. */
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
    uint64_t seed;   /* of the inputs that it started with */
    uint64_t answer; /* hash of its outputs in the first round */
} lab_input_set;

/* The seeds by which the inputs of each set are turned now (lab/measure/station_turn.h). */
typedef struct lab_turns {
    bool turned[LAB_INPUT_SETS];
    uint64_t seed[LAB_INPUT_SETS];
} lab_turns;

/* Probes taken so far (lab/measure/station_probe.h). */
typedef struct lab_probes {
    size_t count;
    size_t slower; /* than the adjacent sample */
    double fastest_ns,
        fastest_beside_ns; /* per call of the probes, and of the adjacent samples */
} lab_probes;

typedef struct lab_station {
    lab_bench_case *owner;
    const lab_bench_options *options;
    lab_prepared prepared;
    lab_input_set sets[LAB_INPUT_SETS];
    size_t set_count;
    lab_mirror *mirrors[LAB_INPUT_SETS]; /* those of the sets */
    lab_device_timer timer;              /* on a GPU */
    lab_nvml *nvml;                      /* on a GPU that provides readings, else NULL */
    lab_cache_flush *flush;              /* shared by all stations */
    double estimate_ns;                  /* of one call */
    size_t turn;                         /* on the CPU, the set of the next call */
    size_t capacity;                     /* of the owner's samples */
    size_t next_renewed;                 /* the next round with new inputs */
    uint64_t first_turn;                 /* the seed by which the inputs of the first round are
                                          * turned */
    lab_turns turns;
    size_t first_used; /* the set of the first call of the last sample; the others follow in
                        * order */
    lab_probes probes;
} lab_station;

/* Find an open station with the case's problem and device; NULL: none. */
const lab_station *lab_station_lender(const lab_station *stations, size_t count,
                                      const lab_bench_case *c);

/* Prepare subject, inputs and workspace. False if the case cannot be timed; the case then says
 * why. The station must not move, and its arguments must outlive it. With a lender it uses the
 * lender's tensors: the address of memory changes times by some per cent, which would look like
 * a difference between the cases. */
bool lab_station_open(lab_station *station, lab_bench_case *c, const lab_bench_options *options,
                      lab_cache_flush *flush, const lab_station *lender);
void lab_station_close(lab_station *station);

/* Whether it computes on a GPU. */
bool lab_station_on_gpu(const lab_station *station);

/* End the timing of the case: it failed or was refused. Both return false. */
bool lab_station_stop(lab_station *station, lab_outcome outcome, const char *text);

/* The same for a failure whose status is the library's last error. */
bool lab_station_failed(lab_station *station, const char *text);

/* Run for that many seconds, then decide how many calls make a sample. */
bool lab_station_warm_up(lab_station *station, double seconds);

/* Take as many calls per sample as the case of the same problem that has most: the fixed cost
 * of a sample weighs less the more calls there are. */
bool lab_station_agree(lab_station *station, const lab_station *stations, size_t count);

/* Call `i` of a sample on the CPU, on the set whose turn it is; and make the calls of a
 * sample, or enough to fill the cache in the same way, untimed. A failure ends the timing of
 * the case. */
bool lab_station_call(lab_station *station, size_t i);
bool lab_station_lead(lab_station *station);

/* Time the calls of one sample; *ns is the time per call. */
bool lab_station_time(lab_station *station, double *ns);

/* Take one sample and keep it. The `first` and `last` rounds, and unpredictable ones in
 * between, run on inputs that the subject has not seen and on poisoned outputs, and the answer
 * is judged (lab/measure/station_judge.h). On the CPU any sample may be judged: all have turned
 * inputs and marked outputs, and whether to judge one is decided after it has been taken. False
 * if memory ran out; a failure ends the timing of this case only. */
bool lab_station_sample(lab_station *station, size_t round, bool last);

#endif
