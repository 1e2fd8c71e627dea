/* plan_tiles.h: tiles of the tensor-core kernels on a device: which fit, how they fill it, how
 * long they would take.
 *
 * A tile is m rows by n keys, with `stages` tiles of K and V in shared memory and `warps` warps
 * that own m / warps rows each. Shared memory is computed as in the kernels (cuda/shape.h);
 * occupancy follows the hardware's rules; registers and time are models. Their constants are in
 * plan_tiles.c; tests and docs/planning.md compare them with the compiler and with measured
 * times. */
#ifndef LAB_PLAN_TILES_H
#define LAB_PLAN_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/occupancy.h"
#include "cuda/row.h"
#include "lab/plan/plan_device.h"
#include "lab/plan/plan_floor.h"
#include "lab/problem/spec.h"

typedef struct lab_tile {
    int m, n, stages, warps;
    int d_qk, d_v;  /* that it is built for */
    const char *id; /* of the kernel with this tile, or NULL */

    uint32_t shared;          /* bytes per block */
    int registers;            /* per thread, by the model */
    att_cuda_resource breaks; /* ATT_RESOURCE_NONE: it fits, and the fields below are set */

    double occupancy;          /* fraction of the warps that an SM could have */
    int blocks;                /* resident per SM */
    att_cuda_resource limited; /* the resource that limits it */
    int splits;                /* parts of the keys */
    double grid;               /* blocks, including splits */
    double waves;              /* grid divided by the blocks resident at once */
    double tail;               /* fraction of the last wave that is used: waves / ceil(waves) */
    double useful;             /* fraction of the computed scores that the problem needs */
    double seconds;            /* by the model; without the launch */
} lab_tile;

/* The grid of tiles that is searched: every combination of warps, rows per warp, n and stages:
 *     warps 1 2 4 8, rows per warp 16 32 64, n 32 64 96 128 192 256, stages 1 2 3. */
enum { LAB_TILE_GRID = 4 * 3 * 6 * 3 };
lab_tile lab_tile_of_grid(size_t i, const att_problem *p);

/* The largest head dimension of a tile. */
enum { LAB_TILE_D_MAX = 256 };

/* The tile of a registry row. */
lab_tile lab_tile_of_row(const att_cuda_kernel *row);

/* Fill every field below `id`, for a problem in 16-bit types; `work` is that of the problem. */
void lab_tile_evaluate(lab_tile *tile, const lab_spec *spec, const lab_work *work,
                       const lab_device *device);

/* Registers per thread of a kernel with this tile, by the model alone. */
int lab_tile_registers(const lab_tile *tile);

/* The allowed difference between the compiler's registers and the model's. */
enum { LAB_REGISTER_MARGIN = 24 };

/* "shared memory", "registers" ... */
const char *lab_limit_name(att_cuda_resource limit);

#endif
