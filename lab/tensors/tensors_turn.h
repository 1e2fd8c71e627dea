/* tensors_turn.h: signs of a few rows turned, so that no answer from before is right any more, at the cost of next to nothing.
 *
 * Of attention, in every K/V head one row of K and of V, and of Q one row of one of the heads that share it. Turned twice by the same seed, all is as it
 * was: nothing needs to be kept. */
#ifndef LAB_TENSORS_TURN_H
#define LAB_TENSORS_TURN_H

#include "lab/tensors/tensors.h"
#include "lab/tensors/verify_rows.h"

enum { LAB_TURNED = 8 };

/* Whether there is anything to turn: the data are normal, and there are rows. */
bool lab_tensors_turnable(const lab_tensors *tensors);

/* Turn the rows that the seed draws. What is not turnable is left alone. The seals of the
 * inputs do not hold until it is turned back. */
void lab_tensors_turn(lab_tensors *tensors, uint64_t seed);

/* Rows of the output that the turned rows change for sure, LAB_TURNED at most, spread over the heads; returns how many. */
size_t lab_tensors_turned_rows(lab_tensors *tensors, uint64_t seed, lab_row *rows);

/* Poison the answers of these rows, and the first one: few enough to be written
 * before every sample. */
void lab_tensors_mark(lab_tensors *tensors, uint64_t seed);

#endif
