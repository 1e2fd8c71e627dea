/* station_turn.h: inputs that change between any two samples, on the CPU, so that none can be told from a judged one.
 *
 * Before a sample the inputs of every set are turned by a seed that nobody can foretell, and some rows of the outputs are poisoned
 * (lab/tensors/tensors_turn.h); after it they are turned back. What is remembered of the untimed calls before it, or found finished, is wrong. */
#ifndef LAB_STATION_TURN_H
#define LAB_STATION_TURN_H

#include "lab/measure/station.h"

/* Whether the station's inputs can be turned: not those of a GPU, nor those that are not random. */
bool lab_turn_is_possible(const lab_station *station);

/* Turn a set by the seed, from how it was; mark its outputs. */
void lab_turn_set(lab_station *station, size_t set, uint64_t seed);
void lab_turn_all(lab_station *station, uint64_t seed);

/* As they were before; nothing where they are. */
void lab_turn_back(lab_station *station, size_t set);
void lab_turn_back_all(lab_station *station);

#endif
