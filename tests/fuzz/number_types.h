/* number_types.h: elements of arrays by their bits, implemented again: the harnesses share no
 * conversion with the code under test. */
#ifndef FUZZ_NUMBER_TYPES_H
#define FUZZ_NUMBER_TYPES_H

#include <stdint.h>

#include "attest.h"

double load_number(const void *base, att_dtype dtype, int64_t index);

/* Rounds to nearest, ties to even; for ATT_BOOL8, 1 if the value is above 0. */
void store_number(void *base, att_dtype dtype, int64_t index, double value);

/* The largest rounding error of the type, relative to the value, and absolute among its
 * smallest numbers. */
double rounding_relative(att_dtype dtype);
double rounding_absolute(att_dtype dtype);

#endif
