/* plan_tiles.h: tiles of the tensor-core kernels on a device: which fit, how they fill it, how long they
 * would take.
 *
 * A tile is m rows by n keys, `stages` tiles of K and V in shared memory, `warps` warps that own m / warps
 * rows each. Shared memory is the kernels' own (cuda/shape.h); occupancy follows the hardware's rules; registers and time
 * are models, whose constants stand in plan_tiles.c and are held against the compiler and the clock by
 * tests and docs/planning.md. */
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
    int d_qk, d_v;  /* that it is made for */
    const char *id; /* of the kernel with this tile, or NULL */

    uint32_t shared;          /* bytes per block */
    int registers;            /* a thread, by the model */
    att_cuda_resource breaks; /* ATT_RESOURCE_NONE: it fits, and what follows is set */

    double occupancy;          /* share of the warps an SM could have */
    int blocks;                /* resident on an SM */
    att_cuda_resource limited; /* what keeps it at that */
    int splits;                /* parts of the keys */
    double grid;               /* blocks, splits among them */
    double waves;              /* grid over what is resident at once */
    double tail;    /* share of the last wave's time that is used: waves / ceil(waves) */
    double useful;  /* share of the computed scores that the problem asks for */
    double seconds; /* by the model; launch not counted */
} lab_tile;

/* The grid of tiles that is searched: every warps x rows a warp x n x stages of
 *     warps 1 2 4 8, rows a warp 16 32 64, n 32 64 96 128 192 256, stages 1 2 3. */
enum { LAB_TILE_GRID = 4 * 3 * 6 * 3 };
lab_tile lab_tile_of_grid(size_t i, const att_problem *p);

/* The largest head dimension that tiles are made for. */
enum { LAB_TILE_D_MAX = 256 };

/* The tile of a registry row. */
lab_tile lab_tile_of_row(const att_cuda_kernel *row);

/* Fill everything below `id`, for a problem in 16-bit types; `work` is of the problem. */
void lab_tile_evaluate(lab_tile *tile, const lab_spec *spec, const lab_work *work,
                       const lab_device *device);

/* Registers a thread of a kernel with this tile: the model alone. */
int lab_tile_registers(const lab_tile *tile);

/* How far the compiler's registers may lie from the model's. */
enum { LAB_REGISTER_MARGIN = 24 };

/* "shared memory", "registers" ... */
const char *lab_limit_name(att_cuda_resource limit);

#endif
