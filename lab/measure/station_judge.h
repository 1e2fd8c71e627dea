/* station_judge.h: whether a timed sample computed what it should have.
 *
 * A judged sample is timed like any other. Its inputs are new to the subject, at the addresses of the
 * old ones, or on the CPU turned (lab/measure/station_turn.h), and its outputs are poisoned. What it left is looked at the moment its time is taken, then
 * held against the oracle with all guards, then looked at again. */
#ifndef LAB_STATION_JUDGE_H
#define LAB_STATION_JUDGE_H

#include "lab/measure/station.h"

/* A round to judge after `round`, by chance: on average twice as late. */
size_t lab_judge_next(size_t round);

/* New inputs in place of the old; with `back`, those that the station began with. What is too large to
 * be filled again keeps its inputs. */
bool lab_judge_renew(lab_station *station, bool back);

/* Poison the outputs and the workspace. */
bool lab_judge_poison(lab_station *station);

/* What stood in some rows of the outputs of each set when the time had been taken. */
typedef struct lab_judge_glance {
    uint64_t seed[LAB_INPUT_SETS], hash[LAB_INPUT_SETS]; /* by the set */
} lab_judge_glance;

void lab_judge_look(lab_judge_glance *glance, const lab_station *station);

/* Judge, with so many multiply-adds at most (0: as many as the options say); inputs that were turned are turned back. The first
 * sample's bits are remembered, those of the last must be the same. */
void lab_judge_answer(lab_station *station, const lab_judge_glance *glance, bool first,
                      bool last, int64_t work);

#endif
