/* code.h: a kernel compiled for the host, loaded. */
#ifndef ATT_VGPU_CODE_H
#define ATT_VGPU_CODE_H

#include "tests/virtual_gpu/abi.h"
#include "tests/virtual_gpu/virtual_gpu.h"

/* The source location of an address in some kernel's code, "kernels/merge.cu:93"; false:
 * unknown. Runs addr2line. */
bool code_place(const void *address, char *text, size_t bytes);

const vgpu_entry_point *code_entry(const vgpu_code *code);

#endif
