/* jit_cache.h: compiled kernels kept on disk, where nobody else can have put them.
 *
 * The folder must belong to the user and be closed to everybody else (0700), and be no symbolic link;
 * entries are plain files of the user's, read only where they lie, and hold a digest over their name and their
 * contents. What fails any of this is not there: it is compiled again and replaced. */
#ifndef ATT_CUDA_JIT_CACHE_H
#define ATT_CUDA_JIT_CACHE_H

#include <stddef.h>
#include <stdint.h>

enum { ATT_JIT_CACHE_MAX = 256 << 20 }; /* bytes that the entries may take together */

/* Open the folder, made if it is not there. NULL: $XDG_CACHE_HOME/attest or ~/.cache/attest. Returns a file
 * descriptor, or -1: no cache. */
int att_jit_cache_open(const char *folder);

/* The entry `key`, in memory that att_free() frees; NULL where there is none that can be trusted. */
unsigned char *att_jit_cache_read(int folder, const char *key, size_t *size);

/* Keep an entry, if that can be done, in one step for whoever reads; the oldest make room for it. */
void att_jit_cache_write(int folder, const char *key, const unsigned char *bytes, size_t size,
                         int64_t limit);

#endif
