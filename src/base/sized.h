/* sized.h: descriptors that begin with their size, so that old and new callers meet.
 *
 * A caller built against an older header passes a shorter struct, one built against a newer
 * header a longer one. A shorter one must have the size of a release; the fields it lacks are zero. Of a
 * longer one the bytes past ours must be zero: a field we do not know may not be asked for. */
#ifndef ATT_BASE_SIZED_H
#define ATT_BASE_SIZED_H

#include <stddef.h>

#include "attest.h"

/* Copy `from` into `to`, `bytes` long and all zero; `first` is its size in the first release that had it. */
att_status att_sized_copy(void *to, size_t bytes, size_t first, const void *from,
                          const char *name);

/* Copy our `from` out to the caller's `to`, which says how much it can take. Its size field
 * stays. */
att_status att_sized_return(void *to, const void *from, size_t bytes, size_t first,
                            const char *name);

#endif
