/* code.h: a kernel compiled for the host, loaded. */
#ifndef ATT_VGPU_CODE_H
#define ATT_VGPU_CODE_H

#include "tests/virtual_gpu/abi.h"
#include "tests/virtual_gpu/virtual_gpu.h"

const vgpu_entry_point *code_entry(const vgpu_code *code);

#endif
