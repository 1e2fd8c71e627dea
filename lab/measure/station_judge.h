/* station_judge.h: whether a timed sample computed what it should have.
 *
 * A judged sample is timed like any other. Its inputs are new to the subject, at the addresses
 * of the old ones, or on the CPU turned (lab/measure/station_turn.h), and its outputs are
 * poisoned. The outputs are hashed as soon as the time is taken, then compared with the oracle
 * and all guards, then hashed again. */
#ifndef LAB_STATION_JUDGE_H
#define LAB_STATION_JUDGE_H

#include "lab/measure/station.h"

/* A random later round to judge: on average at twice `round`. */
size_t lab_judge_next(size_t round);

/* Replace the inputs with new ones; with `back`, with those that the station started with.
 * Inputs that are too large to be filled again stay. */
bool lab_judge_renew(lab_station *station, bool back);

/* Poison the outputs and the workspace. */
bool lab_judge_poison(lab_station *station);

/* Hashes of some rows of the outputs of each set, taken as soon as the time had been taken. */
typedef struct lab_judge_glance {
    uint64_t seed[LAB_INPUT_SETS], hash[LAB_INPUT_SETS]; /* per set */
} lab_judge_glance;

void lab_judge_look(lab_judge_glance *glance, const lab_station *station);

/* Judge with at most that many multiply-adds (0: as the options say); turned inputs are turned
 * back. The bits of the first sample are remembered; the last sample must give the same. */
void lab_judge_answer(lab_station *station, const lab_judge_glance *glance, bool first,
                      bool last, int64_t work);

#endif
