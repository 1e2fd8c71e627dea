/* small_launch.c: one cluster of two blocks, and a vgpu_fail() that returns to the test. */
#include "tests/support/small_launch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

jmp_buf small_failed;
vgpu_check small_check;
char small_text[1024];

void vgpu_fail(vgpu_check check, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(small_text, sizeof small_text, format, arguments);
    va_end(arguments);
    small_check = check;
    longjmp(small_failed, 1);
}

static void prepare_lane(small_launch *launch, int b, int i) {
    vgpu_warp *warp = &launch->warps[b][i / WARP_LANES];
    launch->lanes[b][i] = (vgpu_lane){.warp = warp,
                                      .block = &launch->blocks[b],
                                      .index = i % WARP_LANES,
                                      .number = i,
                                      .at = {"kernel.cu", 100 + i}};
    warp->lanes[i % WARP_LANES] = &launch->lanes[b][i];
}

static void prepare_block(small_launch *launch, int b, long number) {
    vgpu_block *block = &launch->blocks[b];
    *block = (vgpu_block){.id = {0, (unsigned)b, 0},
                          .number = number,
                          .rank = b,
                          .cluster = &launch->cluster,
                          .warps = launch->warps[b],
                          .lanes = launch->lanes[b],
                          .warps_count = SMALL_LANES / WARP_LANES,
                          .lanes_count = SMALL_LANES,
                          .memory = launch->shared[b],
                          .bytes = SMALL_SHARED};
    for (int i = 0; i < SMALL_LANES / WARP_LANES; i++)
        launch->warps[b][i] = (vgpu_warp){.block = block, .index = i, .count = WARP_LANES};
    for (int i = 0; i < SMALL_LANES; i++)
        prepare_lane(launch, b, i);
    races_block_begin(block);
}

small_launch *small_launch_begin(void) {
    static long launches, blocks;
    small_launch *launch = calloc(1, sizeof *launch);
    if (!launch)
        abort();
    static const vgpu_entry_point watched = {.is_watched = 1};
    launch->grid = (vgpu_grid){.number = ++launches, .name = "small", .entry = &watched};
    launch->cluster =
        (vgpu_cluster){.grid = &launch->grid, .blocks = launch->blocks, .count = SMALL_BLOCKS};
    for (int b = 0; b < SMALL_BLOCKS; b++)
        prepare_block(launch, b, ++blocks);
    return launch;
}

void small_launch_end(small_launch *launch) {
    for (int b = 0; b < SMALL_BLOCKS; b++)
        races_block_end(&launch->blocks[b]);
    free(launch);
}
