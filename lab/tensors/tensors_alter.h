/* tensors_alter.h: inputs changed in a few rows, so that no answer from before is right any more. */
#ifndef LAB_TENSORS_ALTER_H
#define LAB_TENSORS_ALTER_H

#include "lab/tensors/tensors.h"
#include "lab/tensors/verify_rows.h"

enum { LAB_ALTERED = 8 };

/* Whether lab_tensors_alter() can: the data are normal, and there are rows. */
bool lab_tensors_alterable(const lab_tensors *tensors);

/* Write other normal numbers into a few rows of Q, K and V; the same seed writes the same ones into the same
 * rows. `rows` are the query rows that changed, LAB_ALTERED at most; returns how many. The seals of the
 * inputs are broken by it. */
size_t lab_tensors_alter(lab_tensors *tensors, uint64_t seed, lab_row *rows);

#endif
