/* control.c: instructions about launches, registers and time. */
#include "tests/virtual_gpu/residency.h"
#include "tests/virtual_gpu/ptx.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"
#include "tests/virtual_gpu/warpgroup_log.h"

static void launch_dependents(ptx_frame *f) {
    grid_allow_next(f->lane);
    lane_may_yield(f->lane);
}

static void wait_previous(ptx_frame *f) {
    grid_wait_previous(f->lane);
}

static void hand_over_registers(vgpu_warp *warp) {
    const ptx_frame *f = ptx_frame_of(warp, 0);
    const warpgroup_event event = {.instruction = f->instruction, .values = {ptx_get(f, 0)}};
    warpgroup_agree(warp, &event);
}

static void setmaxnreg(ptx_frame *f) {
    enum { LEAST = 24, MOST = 256, UNIT = 8 };
    const uint64_t count = ptx_get(f, 0);
    if (count < LEAST || count > MOST || count % UNIT != 0)
        vgpu_fail(CHECK_INSTRUCTION,
                  "%s: %d registers: expected a multiple of 8 from 24 to 256",
                  f->instruction->name, (int)count);
    ptx_meet(f, hand_over_registers);
}

static void sleep_a_while(ptx_frame *f) {
    lane_sleep(f->lane);
}

static void trap(ptx_frame *f) {
    vgpu_fail(CHECK_INSTRUCTION, "%s: the kernel aborts", f->instruction->name);
}

const ptx_row ptx_control[] = {
    {"griddepcontrol.launch_dependents", launch_dependents, 0, 0, 0},
    {"griddepcontrol.wait", wait_previous, 0, 0, 0},
    {"setmaxnreg(.inc|.dec).sync.aligned.u32", setmaxnreg, 0, 1, 1},
    {"nanosleep.u32", sleep_a_while, 0, 1, 1},
    {"trap", trap, 0, 0, 0},
    {0},
};
