/* ptx.h: the text of asm statements, parsed once per statement, and its instructions. */
#ifndef ATT_VGPU_PTX_H
#define ATT_VGPU_PTX_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tests/virtual_gpu/lanes.h"
#include "tests/virtual_gpu/small_floats.h"

enum { PTX_OPERANDS = 160, PTX_REGISTERS = 32, PTX_CHOICES = 6 };

typedef enum ptx_kind {
    PTX_VALUE,    /* %n of the statement, given by its bits */
    PTX_PLACE_16, /* %n of the statement, given by its address: of that many bits */
    PTX_PLACE_32,
    PTX_PLACE_64,
    PTX_REGISTER,     /* declared in the statement */
    PTX_NOT_REGISTER, /* !p */
    PTX_NUMBER,
    PTX_SINK,   /* _ */
    PTX_SPECIAL /* %tid.x and others; number: which, ptx.c's own */
} ptx_kind;

typedef struct ptx_word {
    ptx_kind kind;
    int number;
    uint64_t bits;
    int offset; /* of an address: [a + 16] */
    bool in_braces, in_brackets;
} ptx_word;

struct ptx_frame;
typedef void (*ptx_handler)(struct ptx_frame *frame);

typedef struct ptx_instruction {
    const char *name; /* with all its suffixes */
    ptx_handler run;  /* NULL: a branch */
    int guard;        /* register; -1: none */
    bool guard_not;
    int target;                  /* of a branch */
    int option;                  /* of the table's row */
    int number;                  /* that stands for the row's '#' */
    uint8_t choice[PTX_CHOICES]; /* which alternative of each group of the row's name */
    int count;
    ptx_word *words;
} ptx_instruction;

typedef struct ptx_program {
    ptx_instruction *code;
    int count, registers;
} ptx_program;

/* One lane in one statement. */
typedef struct ptx_frame {
    vgpu_lane *lane;
    const vgpu_asm *statement;
    const ptx_instruction *instruction;
    const uint64_t *operands;
    uint64_t registers[PTX_REGISTERS];
} ptx_frame;

/* A row of a table of instructions. The name is a pattern: one alternative of a group in
 * parentheses, "(|.v2|.v4)", must be present, and '#' is a number. Cache hints (".L2::128B")
 * are not part of it, nor is the operand of ".L2::cache_hint". A statement has at least `least`
 * and at most `most` words. */
typedef struct ptx_row {
    const char *name;
    ptx_handler run;
    int option;
    int least, most;
} ptx_row;

/* Tables, each ended by a row without a name, one per file of instructions. */
extern const ptx_row ptx_arithmetic[], ptx_integers[], ptx_memory[], ptx_atomics[],
    ptx_store_async[], ptx_copies[], ptx_matrices[], ptx_products[], ptx_tensor_copies[],
    ptx_bulk_copies[], ptx_barriers[], ptx_control[];

/* Parse the statement. An unknown instruction, operand or register fails. */
ptx_program *ptx_read(const vgpu_asm *statement);

/* A special register by name, without '%'; -1: not known. */
int ptx_special_of(const char *name);
uint64_t ptx_special(const vgpu_lane *lane, int which);

/* Fail because an operand cannot be used in this way. */
_Noreturn void ptx_fail_operand(const ptx_frame *frame, int word);

static inline void *ptx_pointer(uint64_t bits) {
    return (void *)(uintptr_t)bits;
}

/* Words are counted from 0, in the order of the text, without braces and brackets. */
static inline uint64_t ptx_get(const ptx_frame *frame, int word) {
    const ptx_word *w = &frame->instruction->words[word];
    const uint64_t offset = (uint64_t)(int64_t)w->offset;
    uint64_t bits = 0;
    switch (w->kind) {
    case PTX_VALUE:
        return frame->operands[w->number] + offset;
    case PTX_PLACE_16:
        memcpy(&bits, ptx_pointer(frame->operands[w->number]), 2);
        return bits + offset;
    case PTX_PLACE_32:
        memcpy(&bits, ptx_pointer(frame->operands[w->number]), 4);
        return bits + offset;
    case PTX_PLACE_64:
        memcpy(&bits, ptx_pointer(frame->operands[w->number]), 8);
        return bits + offset;
    case PTX_REGISTER:
        return frame->registers[w->number] + offset;
    case PTX_NOT_REGISTER:
        return !frame->registers[w->number];
    case PTX_NUMBER:
        return w->bits;
    case PTX_SPECIAL:
        return ptx_special(frame->lane, w->number);
    case PTX_SINK:
        break;
    }
    ptx_fail_operand(frame, word);
}

static inline void ptx_set(ptx_frame *frame, int word, uint64_t bits) {
    const ptx_word *w = &frame->instruction->words[word];
    switch (w->kind) {
    case PTX_PLACE_16:
        memcpy(ptx_pointer(frame->operands[w->number]), &bits, 2);
        return;
    case PTX_PLACE_32:
        memcpy(ptx_pointer(frame->operands[w->number]), &bits, 4);
        return;
    case PTX_PLACE_64:
        memcpy(ptx_pointer(frame->operands[w->number]), &bits, 8);
        return;
    case PTX_REGISTER:
        frame->registers[w->number] = bits;
        return;
    case PTX_SINK:
        return;
    default:
        ptx_fail_operand(frame, word);
    }
}

/* The address of an operand that is written. */
static inline void *ptx_place(const ptx_frame *frame, int word) {
    const ptx_word *w = &frame->instruction->words[word];
    if (w->kind != PTX_PLACE_16 && w->kind != PTX_PLACE_32 && w->kind != PTX_PLACE_64)
        ptx_fail_operand(frame, word);
    return ptx_pointer(frame->operands[w->number]);
}

static inline float ptx_get_float(const ptx_frame *frame, int word) {
    return att_bits_f32((uint32_t)ptx_get(frame, word));
}

static inline void ptx_set_float(ptx_frame *frame, int word, float x) {
    ptx_set(frame, word, att_f32_bits(x));
}

/* The frame of a lane that is in an operation of its warp. */
static inline ptx_frame *ptx_frame_of(const vgpu_warp *warp, int lane) {
    return warp->lanes[lane]->frame;
}

/* An instruction of the whole warp: the last lane to arrive calls `execute` (or NULL) for all
 * 32. */
void ptx_meet(ptx_frame *frame, void (*execute)(vgpu_warp *warp));

/* The same offset in the shared memory of another block of the cluster. Fails if there is no
 * such block. */
unsigned ptx_map_address(const ptx_frame *frame, unsigned address, unsigned rank);

/* For wgmma: run one of the warp's pending products; false: none. */
bool wgmma_run_any(vgpu_warp *warp);
bool wgmma_has_work(const vgpu_warp *warp);
void wgmma_lane_ended(vgpu_lane *lane); /* fails if products are in flight */
void wgmma_free(vgpu_warp *warp);

#endif
