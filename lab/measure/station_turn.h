/* station_turn.h: on the CPU, inputs that change between any two samples, so that a judged
 * sample looks like any other.
 *
 * Before a sample the inputs of every set are turned by an unpredictable seed, and some rows of
 * the outputs are poisoned (lab/tensors/tensors_turn.h); after it they are turned back. An
 * answer that is remembered from the untimed calls before it, or found finished in the outputs,
 * is wrong. */
#ifndef LAB_STATION_TURN_H
#define LAB_STATION_TURN_H

#include "lab/measure/station.h"

/* Whether the station's inputs can be turned: not on a GPU, and only if they are random. */
bool lab_turn_is_possible(const lab_station *station);

/* Turn a set, which must not be turned yet, by the seed; mark its outputs. */
void lab_turn_set(lab_station *station, size_t set, uint64_t seed);
void lab_turn_all(lab_station *station, uint64_t seed);

/* Restore the inputs; does nothing if they are not turned. */
void lab_turn_back(lab_station *station, size_t set);
void lab_turn_back_all(lab_station *station);

#endif
