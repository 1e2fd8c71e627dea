/* station_turn.c: turns sets and turns them back. */
#include "lab/measure/station_turn.h"

#include "lab/tensors/tensors_turn.h"

bool lab_turn_is_possible(const lab_station *s) {
    return !lab_station_on_gpu(s) && lab_tensors_turnable(s->sets[0].tensors);
}

void lab_turn_back(lab_station *s, size_t set) {
    if (s->turns.turned[set])
        lab_tensors_turn(s->sets[set].tensors, s->turns.seed[set]);
    s->turns.turned[set] = false;
}

void lab_turn_set(lab_station *s, size_t set, uint64_t seed) {
    lab_turn_back(s, set);
    lab_tensors_turn(s->sets[set].tensors, seed);
    lab_tensors_mark(s->sets[set].tensors, seed);
    s->turns.seed[set] = seed;
    s->turns.turned[set] = true;
}

void lab_turn_all(lab_station *s, uint64_t seed) {
    for (size_t i = 0; i < s->set_count && lab_turn_is_possible(s); i++)
        lab_turn_set(s, i, seed + i);
}

void lab_turn_back_all(lab_station *s) {
    for (size_t i = 0; i < s->set_count; i++)
        lab_turn_back(s, i);
}
