/* jit.h: compiles a kernel at run time with NVRTC, from the source text in the library. */
#ifndef ATT_CUDA_JIT_H
#define ATT_CUDA_JIT_H

#include "base/sha256.h"
#include "cuda/row.h"

/* Is NVRTC available? *why (may be NULL) says what is missing, on this thread, until the next
 * call. The environment variable ATTEST_LIBNVRTC names another library file. Thread: safe. */
int att_jit_available(const char **why);

/* The machine code of `kernel` for a GPU of compute capability `cc`.
 *
 * defines    more "-DNAME=VALUE" flags, separated by spaces; NULL: none
 * cache_dir  folder for compiled code; NULL: the user's cache folder; "": no cache
 * out, size  att_free() frees *out
 * Thread     safe
 * Errors     ATT_E_ARG (an invalid define), ATT_E_UNSUPPORTED (no NVRTC, no such source, or
 *            it does not compile: the text has the compiler's log), ATT_E_MEMORY */
att_status att_jit_compile(unsigned char **out, size_t *size, const att_cuda_kernel *kernel,
                           int cc, const char *defines, const char *cache_dir);

/* The digest of the text from which kernels/<source>.cu is compiled: its own and every header.
 * Returns false if the library has no such source. Thread: safe. */
bool att_jit_source_digest(char hex[ATT_SHA256_HEX], const char *source);

#endif
