/* jit_cache.h: compiled kernels on disk, protected from other users.
 *
 * The folder must belong to the user, be closed to everybody else (0700), and not be a symbolic
 * link. Entries are regular files owned by the user, are read only in that folder, and contain
 * a digest of their name and contents. An entry that fails any check is ignored, compiled again
 * and replaced. */
#ifndef ATT_CUDA_JIT_CACHE_H
#define ATT_CUDA_JIT_CACHE_H

#include <stddef.h>
#include <stdint.h>

enum { ATT_JIT_CACHE_MAX = 256 << 20 }; /* limit on the bytes of all entries together */

/* Open the folder, creating it if necessary. NULL: $XDG_CACHE_HOME/attest or ~/.cache/attest.
 * Returns a file descriptor, or -1: no cache. */
int att_jit_cache_open(const char *folder);

/* The entry `key`, in memory that att_free() frees; NULL if there is none that can be
 * trusted. */
unsigned char *att_jit_cache_read(int folder, const char *key, size_t *size);

/* Store an entry if possible, atomically for readers; the oldest entries make room for it. */
void att_jit_cache_write(int folder, const char *key, const unsigned char *bytes, size_t size,
                         int64_t limit);

#endif
