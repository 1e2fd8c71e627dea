/* plan_kernels.h: the kernels that support a problem on a device: how each would divide the
 * work, and how long it would take.
 *
 * Tiles, parts and blocks come from the functions that the launch uses. Times come from those
 * by which the library chooses, or from the model of plan_tiles.h. Thread: safe. */
#ifndef LAB_PLAN_KERNELS_H
#define LAB_PLAN_KERNELS_H

#include "core/select.h"
#include "lab/plan/plan_tiles.h"

/* The source of a time. The library's own models were fitted on an H200. */
typedef enum lab_time_model {
    LAB_TIME_NONE,
    LAB_TIME_SELECTOR, /* att_family.estimate, by which the library chooses among Hopper's
                        * tiles */
    LAB_TIME_DECODE, /* att_cuda_decode_choose(), by which it chooses the clusters of a decode */
    LAB_TIME_TILE,   /* plan_tiles.h */
    LAB_TIME_COUNT
} lab_time_model;

typedef struct lab_plan_kernel {
    const att_kernel_row *row;
    uint32_t threads, shared; /* per block */
    double tiles;             /* tiles of rows */
    int splits;               /* parts of the keys; 0: unknown */
    bool cluster;             /* the blocks of a cluster merge the parts */
    double blocks;            /* launched; 0 if the parts are unknown */
    double rounds;            /* tiles times parts, divided by the blocks that the GPU runs at
                               * once */
    lab_time_model model;     /* LAB_TIME_NONE: `seconds` is not set */
    double seconds;
    bool chosen;
} lab_plan_kernel;

/* List the kernels of limits->gpu that support the problem: `chosen` first, then by increasing
 * time, then those without a time. Returns their number. Kernels that only pad the heads more
 * than the chosen one are listed only if they compete with it. `list` has room for
 * att_rows_count(limits); no time is below `floor`, in seconds. */
size_t lab_plan_list_kernels(lab_plan_kernel *list, const att_kernel_row *chosen,
                             const att_limits *limits, const lab_spec *spec,
                             const lab_work *work, double floor, const lab_device *device);

/* The parts into which `row` splits the keys of a problem on that GPU, if another kernel merges
 * them; 1 if none does, 0 if that is unknown: it depends on how many blocks an SM holds. */
int lab_plan_parts(const att_kernel_row *row, const att_cuda_limits *gpu, const lab_spec *spec);

/* Whether the model of plan_tiles.h can predict the time of a problem. */
bool lab_tiles_model(const lab_spec *spec, const lab_work *work);

/* "none", "selector", "decode", "tile". */
const char *lab_time_model_name(lab_time_model model);

#endif
