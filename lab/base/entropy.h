/* entropy.h: unpredictable numbers, for checks that a subject must not be able to prepare
 * for. */
#ifndef LAB_ENTROPY_H
#define LAB_ENTROPY_H

#include <stdint.h>

/* 64 bits from the operating system. */
uint64_t lab_entropy(void);

#endif
