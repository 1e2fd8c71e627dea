/* ptx.c: runs asm statements, one lane at a time. */
#include "tests/virtual_gpu/ptx.h"

#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/warp.h"

enum { ALL_LANES = -1 };

typedef enum special {
    TID_X,
    TID_Y,
    TID_Z,
    NTID_X,
    NTID_Y,
    NTID_Z,
    CTAID_X,
    CTAID_Y,
    CTAID_Z,
    NCTAID_X,
    NCTAID_Y,
    NCTAID_Z,
    LANE_ID,
    WARP_ID,
    LANES_EQ,
    LANES_LT,
    LANES_LE,
    LANES_GT,
    LANES_GE,
    CLUSTER_RANK,
    CLUSTER_BLOCKS,
    SPECIALS
} special;

static const char *const special_names[SPECIALS] = {
    "tid.x",       "tid.y",           "tid.z",
    "ntid.x",      "ntid.y",          "ntid.z",
    "ctaid.x",     "ctaid.y",         "ctaid.z",
    "nctaid.x",    "nctaid.y",        "nctaid.z",
    "laneid",      "warpid",          "lanemask_eq",
    "lanemask_lt", "lanemask_le",     "lanemask_gt",
    "lanemask_ge", "cluster_ctarank", "cluster_nctarank",
};

int ptx_special_of(const char *name) {
    for (int i = 0; i < SPECIALS; i++)
        if (strcmp(name, special_names[i]) == 0)
            return i;
    return -1;
}

static unsigned axis(vgpu_dim3 size, int which) {
    return which == 0 ? size.x : which == 1 ? size.y : size.z;
}

uint64_t ptx_special(const vgpu_lane *lane, int which) {
    const unsigned own = 1u << lane->index;
    switch ((special)which) {
    case TID_X:
    case TID_Y:
    case TID_Z:
        return axis(lane->is.thread, which - TID_X);
    case NTID_X:
    case NTID_Y:
    case NTID_Z:
        return axis(vgpu_block_size, which - NTID_X);
    case CTAID_X:
    case CTAID_Y:
    case CTAID_Z:
        return axis(lane->is.block, which - CTAID_X);
    case NCTAID_X:
    case NCTAID_Y:
    case NCTAID_Z:
        return axis(vgpu_grid_size, which - NCTAID_X);
    case LANE_ID:
        return (unsigned)lane->index;
    case WARP_ID:
        return (unsigned)lane->warp->index;
    case LANES_EQ:
        return own;
    case LANES_LT:
        return own - 1;
    case LANES_LE:
        return own | (own - 1);
    case LANES_GT:
        return ~(own | (own - 1));
    case LANES_GE:
        return ~(own - 1);
    case CLUSTER_RANK:
        return (unsigned)lane->block->rank;
    case CLUSTER_BLOCKS:
        return (unsigned)lane->block->cluster->count;
    case SPECIALS:
        break;
    }
    return 0;
}

void ptx_fail_operand(const ptx_frame *frame, int word) {
    vgpu_fail(CHECK_INSTRUCTION, "%s (%s:%d) cannot use its operand %d",
              frame->instruction->name, frame->statement->file, frame->statement->line, word);
}

void ptx_meet(ptx_frame *frame, void (*execute)(vgpu_warp *warp)) {
    vgpu_lane *lane = frame->lane;
    lane->frame = frame;
    if (lane->warp->count != WARP_LANES || lane->warp->live != (unsigned)ALL_LANES)
        vgpu_fail(CHECK_CONVERGENCE, "%s needs all 32 lanes of the warp",
                  frame->instruction->name);
    warp_meet(lane, (unsigned)ALL_LANES, frame->instruction, WARP_ASM, execute);
}

void vgpu_run_asm(vgpu_asm *statement, const uint64_t *operands) {
    ptx_frame frame;
    frame.lane = vgpu_lane_at(statement->file, statement->line);
    if (!statement->program)
        statement->program = ptx_read(statement);
    const ptx_program *program = statement->program;
    frame.statement = statement;
    frame.operands = operands;
    for (int i = 0; i < program->registers; i++)
        frame.registers[i] = 0;
    for (int at = 0; at < program->count;) {
        const ptx_instruction *instruction = &program->code[at++];
        if (instruction->guard >= 0 &&
            (frame.registers[instruction->guard] != 0) == instruction->guard_not)
            continue;
        if (!instruction->run) {
            at = instruction->target;
            continue;
        }
        frame.instruction = instruction;
        instruction->run(&frame);
    }
}
