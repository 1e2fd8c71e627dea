/* cuda_rows.c: what make needs to know about the rows of kernels.def.
 *
 *     cuda_rows FOLDER >rows.mk
 *
 * prints one line per row, `$(eval $(call cuda_row,ID,SOURCE,COMPUTE CAPABILITIES))`, and
 * keeps the compiler flags of every row in FOLDER/ID.flags. A flags file is touched only if
 * its contents change: the code of a row depends on it, so that a change of one row
 * recompiles no other. Built with -DKERNELS_DEF='"..."'. */
#include <stdio.h>
#include <string.h>

#include "cuda/flags.h"

enum { ATT_ANY = 0 };

static const att_cuda_kernel rows[] = {
#define ATT_CUDA_KERNEL(kernel, file, sms, what, type, dqk, dv, m, n, count, block, ...)       \
    {.id = #kernel,                                                                            \
     .source = #file,                                                                          \
     .summary = ATT_ROW_SUMMARY(__VA_ARGS__, 0),                                               \
     .targets = ATT_##sms,                                                                     \
     .role = ATT_ROLE_##what,                                                                  \
     .dtype = (att_dtype)ATT_##type,                                                           \
     .d_qk = dqk,                                                                              \
     .d_v = dv,                                                                                \
     .tile_m = m,                                                                              \
     .tile_n = n,                                                                              \
     .stages = count,                                                                          \
     .warps = block,                                                                           \
     .features = ATT_ROW_FEATURES(__VA_ARGS__, 0, 0)},
#include KERNELS_DEF
    {.id = NULL}};

static const struct {
    uint32_t bit;
    int cc;
} targets[] = {{ATT_SM80, 80}, {ATT_SM86_89, 86}, {ATT_SM90, 90}};

static int keep_flags(const char *folder, const char *id, const char *flags) {
    char path[4096], old[ATT_CUDA_FLAGS_MAX] = "";
    snprintf(path, sizeof path, "%s/%s.flags", folder, id);
    FILE *file = fopen(path, "r");
    if (file) {
        old[fread(old, 1, sizeof old - 1, file)] = '\0';
        fclose(file);
    }
    if (strcmp(old, flags) == 0)
        return 0;
    file = fopen(path, "w");
    if (!file || fputs(flags, file) < 0 || fclose(file) != 0) {
        perror(path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    for (const att_cuda_kernel *row = rows; row->id; row++) {
        char flags[ATT_CUDA_FLAGS_MAX];
        att_cuda_flags(flags, row);
        if (keep_flags(argv[1], row->id, flags))
            return 1;
        printf("$(eval $(call cuda_row,%s,%s,", row->id, row->source);
        for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
            if (row->targets & targets[i].bit)
                printf(" %d", targets[i].cc);
        printf("))\n");
    }
    return 0;
}
