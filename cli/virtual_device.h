/* virtual_device.h: --device virtual: a driver that runs GPU kernels on the CPU, for tests. */
#ifndef CLI_VIRTUAL_DEVICE_H
#define CLI_VIRTUAL_DEVICE_H

#include "cli/options.h"

/* Replace the driver, NVRTC and cuBLAS with the virtual GPU, before the library searches for
 * them. Prints an error if it is not built. */
bool cli_virtual_open(const cli_options *o);

/* The folder for code compiled for it: ATTEST_VIRTUAL_CACHE, or a folder beside it. */
const char *cli_virtual_cache(void);

#endif
