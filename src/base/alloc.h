/* alloc.h: all heap allocation of the library goes through here, so that tests can make the Nth
 * call fail. */
#ifndef ATT_BASE_ALLOC_H
#define ATT_BASE_ALLOC_H

#include <stddef.h>

/* Zeroed memory aligned to 64 bytes, or NULL. */
void *att_alloc(size_t bytes);
void att_free(void *memory);

/* Tests only: let `n` allocations succeed and fail the next one; -1, the initial value, never
 * fails. */
void att_alloc_fail_after(long n);

/* Tests only: allocations made and not yet freed. */
long att_alloc_live(void);

#endif
