/* tensor_box.h: what a bulk copy moves: a box of a tensor in global memory, and its image in
 * shared memory. */
#ifndef ATT_VGPU_TENSOR_BOX_H
#define ATT_VGPU_TENSOR_BOX_H

#include <stdbool.h>
#include <stdint.h>

enum { BOX_AXES = 5 };

typedef enum box_type { BOX_BYTES, BOX_F16, BOX_BF16, BOX_F32 } box_type;

typedef struct tensor_box {
    char *address;
    uint64_t stride[BOX_AXES - 1]; /* bytes, of the second axis on */
    uint32_t size[BOX_AXES];       /* of the tensor */
    uint32_t box[BOX_AXES];
    int at[BOX_AXES]; /* where the box begins: it may be partly outside */
    int rank;
    box_type type;
    unsigned swizzle; /* bytes: 32, 64, 128; 16: none */
    unsigned shared;  /* address */
} tensor_box;

/* Adjacent bytes in global memory within the tensor: at `offset` in the box, row by row. */
typedef struct box_row {
    char *global;
    unsigned offset, bytes;
} box_row;

/* Bytes that a copy counts, inside or not; those of shared memory that it touches, a whole
 * swizzle pattern. */
unsigned tensor_box_bytes(const tensor_box *box);
unsigned tensor_box_span(const tensor_box *box);

unsigned tensor_box_rows(const tensor_box *box);
bool tensor_box_row(const tensor_box *box, unsigned n,
                    box_row *row); /* false: it is entirely outside */

/* `visit` is called for bytes within the tensor that lie side by side in both memories;
 * `offset` is into shared memory. */
typedef void (*box_visitor)(const tensor_box *box, char *global, unsigned offset,
                            unsigned bytes, void *data);
void tensor_box_walk(const tensor_box *box, box_visitor visit, void *data);

/* To shared memory at `memory`, with zeros for what is outside; from a copy of it; add such a
 * copy. */
void tensor_box_load(const tensor_box *box, char *memory);
void tensor_box_store(const tensor_box *box, const char *memory);
void tensor_box_add(const tensor_box *box, const char *memory);

#endif
