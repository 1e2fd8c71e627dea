/* virtual_device.h: --device virtual: a driver that runs the kernels of GPUs on the CPU, for tests of them. */
#ifndef CLI_VIRTUAL_DEVICE_H
#define CLI_VIRTUAL_DEVICE_H

#include "cli/options.h"

/* Put the virtual GPU in the place of the driver, of NVRTC and of cuBLAS, before the library looks for these. Complains where it is not
 * built. */
bool cli_virtual_open(const cli_options *o);

/* Where code that was compiled for it is kept: ATTEST_VIRTUAL_CACHE, or a folder beside it. */
const char *cli_virtual_cache(void);

#endif
