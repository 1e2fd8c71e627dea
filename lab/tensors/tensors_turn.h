/* tensors_turn.h: flips ("turns") the signs of a few rows, so that earlier answers become
 * wrong, at almost no cost.
 *
 * For attention: one row of K and of V in every K/V head, and one row of Q in one of the heads
 * that share it. Turning twice by the same seed restores everything: nothing needs to be
 * saved. */
#ifndef LAB_TENSORS_TURN_H
#define LAB_TENSORS_TURN_H

#include "lab/tensors/tensors.h"
#include "lab/tensors/verify_rows.h"

enum { LAB_TURNED = 8 };

/* Whether there is anything to turn: the data are normal, and there are rows. */
bool lab_tensors_turnable(const lab_tensors *tensors);

/* Turn the rows that the seed draws. Inputs that cannot be turned are left alone. The seals of
 * the inputs do not match until they are turned back. */
void lab_tensors_turn(lab_tensors *tensors, uint64_t seed);

/* Output rows that certainly change with the turned rows, at most LAB_TURNED, spread over the
 * heads; returns their number. */
size_t lab_tensors_turned_rows(lab_tensors *tensors, uint64_t seed, lab_row *rows);

/* Poison the answers of these rows, and the first row: few enough to be written before every
 * sample. */
void lab_tensors_mark(lab_tensors *tensors, uint64_t seed);

#endif
