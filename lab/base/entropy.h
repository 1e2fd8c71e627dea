/* entropy.h: numbers that nobody can foretell, for checks that must not be prepared for. */
#ifndef LAB_ENTROPY_H
#define LAB_ENTROPY_H

#include <stdint.h>

/* 64 bits from the operating system. */
uint64_t lab_entropy(void);

#endif
