/* ptx.h: the text of asm statements, read once a statement, and its instructions. */
#ifndef ATT_VGPU_PTX_H
#define ATT_VGPU_PTX_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tests/virtual_gpu/machine.h"

enum { PTX_OPERANDS = 160, PTX_REGISTERS = 16 };

typedef enum ptx_kind {
    PTX_OPERAND,  /* %n of the statement */
    PTX_REGISTER, /* of its own */
    PTX_NUMBER,
    PTX_SINK,   /* _ */
    PTX_SPECIAL /* %tid.x and others; number: which, ptx.c's own */
} ptx_kind;

typedef struct ptx_word {
    ptx_kind kind;
    int number;
    uint64_t bits;
    int offset; /* of an address: [a + 16] */
} ptx_word;

struct ptx_frame;
typedef void (*ptx_handler)(struct ptx_frame *frame);

typedef struct ptx_instruction {
    const char *name; /* with all its suffixes */
    ptx_handler run;
    int guard; /* register; -1: none */
    bool guard_not;
    int target; /* of a branch; -1: none */
    int option; /* of the table's row */
    int count;
    ptx_word *words;
} ptx_instruction;

/* One lane in one statement. */
typedef struct ptx_frame {
    vgpu_lane *lane;
    const vgpu_asm *statement;
    const ptx_instruction *instruction;
    const uint64_t *operands;
    uint64_t registers[PTX_REGISTERS];
} ptx_frame;

/* Words are counted from 0, in the order of the text, braces and brackets left out. */
uint64_t ptx_get(const ptx_frame *frame, int word);
void ptx_set(ptx_frame *frame, int word, uint64_t bits);
void *ptx_place(const ptx_frame *frame, int word); /* of an operand that is written */

static inline float ptx_get_float(const ptx_frame *frame, int word) {
    const uint32_t bits = (uint32_t)ptx_get(frame, word);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline void ptx_set_float(ptx_frame *frame, int word, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    ptx_set(frame, word, bits);
}

/* A row of the table of instructions. A name may hold one '#', which stands for a number: it becomes `option`. */
typedef struct ptx_row {
    const char *name;
    ptx_handler run;
    int option;
} ptx_row;

/* Tables, each ended by a row without a name, one per file of instructions. */
extern const ptx_row ptx_arithmetic[], ptx_memory[], ptx_copies[], ptx_matrices[],
    ptx_products[], ptx_tensor_copies[], ptx_barriers[], ptx_control[];

/* The 16-bit types. */
float f16_to_float(uint16_t x);
uint16_t f16_from_float(float x);
float bf16_to_float(uint16_t x);
uint16_t bf16_from_float(float x);

/* For wgmma.c: the warp's products. One of those under way that has not run runs; false: none. */
bool wgmma_run_any(vgpu_warp *warp);
bool wgmma_has_work(const vgpu_warp *warp);
void wgmma_lane_ended(vgpu_lane *lane); /* fails where products are under way */
void wgmma_free(vgpu_warp *warp);

#endif
