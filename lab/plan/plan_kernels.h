/* plan_kernels.h: the kernels that serve a problem on a device: how each would cut it, and when it would be done.
 *
 * Tiles, parts and blocks come from the functions that the launch asks; times from those by which the library chooses, or from
 * the model of plan_tiles.h. Thread: safe. */
#ifndef LAB_PLAN_KERNELS_H
#define LAB_PLAN_KERNELS_H

#include "core/select.h"
#include "lab/plan/plan_tiles.h"

/* Where a time comes from. The library's own were fitted on an H200. */
typedef enum lab_time_model {
    LAB_TIME_NONE,
    LAB_TIME_SELECTOR, /* att_family.estimate, by which the library chooses among Hopper's tiles */
    LAB_TIME_DECODE, /* att_cuda_decode_choose(), by which it chooses the clusters of a decode */
    LAB_TIME_TILE,   /* plan_tiles.h */
    LAB_TIME_COUNT
} lab_time_model;

typedef struct lab_plan_kernel {
    const att_kernel_row *row;
    uint32_t threads, shared; /* per block */
    double tiles;             /* of rows */
    int splits;               /* parts of the keys; 0: not known */
    bool cluster;             /* the blocks of a cluster merge them */
    double blocks;            /* launched; 0 where the parts are not known */
    double rounds;        /* tiles and parts over the blocks that the GPU works on at once */
    lab_time_model model; /* LAB_TIME_NONE: `seconds` is not set */
    double seconds;
    bool chosen;
} lab_plan_kernel;

/* List the kernels of limits->gpu that serve the problem, `chosen` first, then the soonest first, then those without a time;
 * how many. Of those that only pad the heads more than the chosen one, only the ones that compete with it. `list` holds
 * att_rows_count(limits); no time is below `floor`, in seconds. */
size_t lab_plan_list_kernels(lab_plan_kernel *list, const att_kernel_row *chosen,
                             const att_limits *limits, const lab_spec *spec,
                             const lab_work *work, double floor, const lab_device *device);

/* Can the model of plan_tiles.h tell the time of a problem? */
bool lab_tiles_model(const lab_spec *spec, const lab_work *work);

/* "none", "selector", "decode", "tile". */
const char *lab_time_model_name(lab_time_model model);

#endif
