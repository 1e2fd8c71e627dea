/* virtual_device.c: finds the libraries of the virtual GPU relative to the program. */
#include "cli/virtual_device.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/base/data_file.h"

static char folder[PATH_MAX];

/* Set the variable to FOLDER/NAME; false if there is no such file. */
static bool set_library(const char *variable, const char *name) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, R_OK) == 0 && setenv(variable, path, 1) == 0;
}

bool cli_virtual_open(const cli_options *o) {
    static const lab_data_kind kind = {.what = "virtual GPU",
                                       .folder = "virtual",
                                       .suffix = ".so",
                                       .environment = "ATTEST_VIRTUAL"};
    if (!lab_data_folder(&kind, folder, sizeof folder) ||
        !set_library("ATTEST_LIBCUDA", "libcuda.so") ||
        !set_library("ATTEST_LIBCUBLAS", "libcuda.so") || /* it contains both */
        !set_library("ATTEST_LIBNVRTC", "libnvrtc.so"))
        return cli_complain(o, "--device virtual: the virtual GPU is not built; 'make virtual' "
                               "builds it beside the program");
    return true;
}

const char *cli_virtual_cache(void) {
    static char path[PATH_MAX + 16];
    const char *chosen = getenv("ATTEST_VIRTUAL_CACHE");
    if (chosen && *chosen)
        return chosen;
    snprintf(path, sizeof path, "%s/cache", folder);
    return path;
}
