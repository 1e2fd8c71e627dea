/* sized.h: structs that begin with their size, for compatibility between old and new callers.
 *
 * A caller built against an older header passes a shorter struct, one built against a newer
 * header a longer one. A shorter one must have the size of a release; the fields it lacks are
 * zero. In a longer one the bytes past ours must be zero: an unknown field must not be used. */
#ifndef ATT_BASE_SIZED_H
#define ATT_BASE_SIZED_H

#include <stddef.h>

#include "attest.h"

/* Copy `from` into `to`, which is `bytes` long and all zero; `first` is its size in the first
 * release that had it. */
att_status att_sized_copy(void *to, size_t bytes, size_t first, const void *from,
                          const char *name);

/* Copy our `from` to the caller's `to`, whose size field says how much it can hold. That field
 * is kept. */
att_status att_sized_return(void *to, const void *from, size_t bytes, size_t first,
                            const char *name);

#endif
