/* small_launch.h: lanes of the virtual GPU without a scheduler, for tests of the checks on
 * memory accesses. */
#ifndef TESTS_SUPPORT_SMALL_LAUNCH_H
#define TESTS_SUPPORT_SMALL_LAUNCH_H

#include <setjmp.h>

#include "tests/virtual_gpu/lanes.h"
#include "tests/virtual_gpu/checks.h"

enum { SMALL_BLOCKS = 2, SMALL_LANES = 64, SMALL_SHARED = 1024 };

/* A launch of one cluster. */
typedef struct small_launch {
    vgpu_grid grid;
    vgpu_cluster cluster;
    vgpu_block blocks[SMALL_BLOCKS];
    vgpu_warp warps[SMALL_BLOCKS][SMALL_LANES / WARP_LANES];
    vgpu_lane lanes[SMALL_BLOCKS][SMALL_LANES];
    char shared[SMALL_BLOCKS][SMALL_SHARED];
} small_launch;

/* Launches and blocks get consecutive numbers. It is ordered after no earlier launch. */
small_launch *small_launch_begin(void);
void small_launch_end(small_launch *launch);

/* Set by the vgpu_fail() of these tests. */
extern jmp_buf small_failed;
extern vgpu_check small_check;
extern char small_text[1024];

/* `statement` must fail the check, with a text that contains `word`; or must not fail. */
#define assert_check_fails(statement, check, word)                                             \
    do {                                                                                       \
        if (!setjmp(small_failed)) {                                                           \
            statement;                                                                         \
            fail_msg("%s: nothing failed", #statement);                                        \
        }                                                                                      \
        if (small_check != (check) || !strstr(small_text, word))                               \
            fail_msg("%s: check %d: %s", #statement, (int)small_check, small_text);            \
    } while (0)
#define assert_check_passes(statement)                                                         \
    do {                                                                                       \
        if (setjmp(small_failed))                                                              \
            fail_msg("%s: %s", #statement, small_text);                                        \
        statement;                                                                             \
    } while (0)

#endif
