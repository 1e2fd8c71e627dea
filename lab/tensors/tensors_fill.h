/* tensors_fill.h: what lab_tensors_create() writes into its buffers. */
#ifndef LAB_TENSORS_FILL_H
#define LAB_TENSORS_FILL_H

#include <stdint.h>

#include "lab/tensors/tensors.h"

/* Fill every input as spec.data and spec.bias_fill say. Elements outside the problem are left as
 * they are: poisoned by the caller, or zero in large buffers and sparse data. */
void lab_tensors_fill(lab_tensors *tensors, uint64_t seed);

#endif
