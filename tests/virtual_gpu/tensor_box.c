/* tensor_box.c: what a bulk copy moves: a box of a tensor in global memory, and its image in
 * shared memory. */
#include "tests/virtual_gpu/tensor_box.h"

#include <string.h>

#include "tests/virtual_gpu/product_operands.h"
#include "tests/virtual_gpu/small_floats.h"

enum { UNIT = 16 }; /* bytes that swizzling keeps together */

static unsigned element_bytes(box_type type) {
    return type == BOX_BYTES ? 1 : type == BOX_F32 ? 4 : 2;
}

unsigned tensor_box_rows(const tensor_box *box) {
    unsigned rows = 1;
    for (int d = 1; d < box->rank; d++)
        rows *= box->box[d];
    return rows;
}

unsigned tensor_box_bytes(const tensor_box *box) {
    return tensor_box_rows(box) * box->box[0] * element_bytes(box->type);
}

unsigned tensor_box_span(const tensor_box *box) {
    const unsigned bytes = tensor_box_bytes(box);
    return box->swizzle == UNIT ? bytes
                                : (bytes + box->swizzle - 1) / box->swizzle * box->swizzle;
}

bool tensor_box_row(const tensor_box *box, unsigned n, box_row *row) {
    const unsigned element = element_bytes(box->type);
    long long first = -(long long)box->at[0],
              end = (long long)box->size[0] - box->at[0]; /* in the box */
    first = first < 0 ? 0 : first;
    end = end > box->box[0] ? box->box[0] : end;
    if (first >= end)
        return false;
    row->offset = (n * box->box[0] + (unsigned)first) * element;
    row->bytes = (unsigned)(end - first) * element;
    row->global = box->address + (box->at[0] + first) * (long long)element;
    for (int d = 1; d < box->rank; d++) {
        const long long x = (long long)box->at[d] + n % box->box[d];
        if (x < 0 || x >= box->size[d])
            return false;
        row->global += (uint64_t)x * box->stride[d - 1];
        n /= box->box[d];
    }
    return true;
}

void tensor_box_walk(const tensor_box *box, box_visitor visit, void *data) {
    const unsigned rows = tensor_box_rows(box);
    box_row row;
    for (unsigned n = 0; n < rows; n++) {
        if (!tensor_box_row(box, n, &row))
            continue;
        for (unsigned done = 0, bytes; done < row.bytes; done += bytes) {
            const unsigned linear = box->shared + row.offset + done;
            const unsigned together = box->swizzle == UNIT ? row.bytes : UNIT - linear % UNIT;
            bytes = row.bytes - done < together ? row.bytes - done : together;
            visit(box, row.global + done, swizzled(linear, box->swizzle) - box->shared, bytes,
                  data);
        }
    }
}

static void move_in(const tensor_box *box, char *global, unsigned offset, unsigned bytes,
                    void *memory) {
    (void)box;
    memcpy((char *)memory + offset, global, bytes);
}

static void move_out(const tensor_box *box, char *global, unsigned offset, unsigned bytes,
                     void *memory) {
    (void)box;
    memcpy(global, (const char *)memory + offset, bytes);
}

static void add_float(char *to, const char *from) {
    float x, y;
    memcpy(&x, to, sizeof x);
    memcpy(&y, from, sizeof y);
    x += y;
    memcpy(to, &x, sizeof x);
}

static void add_small(char *to, const char *from, bool is_bf16) {
    uint16_t x, y;
    memcpy(&x, to, sizeof x);
    memcpy(&y, from, sizeof y);
    x = small_from_float(small_to_float(x, is_bf16) + small_to_float(y, is_bf16), is_bf16);
    memcpy(to, &x, sizeof x);
}

static void add_out(const tensor_box *box, char *global, unsigned offset, unsigned bytes,
                    void *memory) {
    const char *from = (const char *)memory + offset;
    for (unsigned i = 0; i < bytes; i += element_bytes(box->type)) {
        if (box->type == BOX_F32)
            add_float(global + i, from + i);
        else
            add_small(global + i, from + i, box->type == BOX_BF16);
    }
}

void tensor_box_load(const tensor_box *box, char *memory) {
    memset(memory, 0, tensor_box_span(box));
    tensor_box_walk(box, move_in, memory);
}

void tensor_box_store(const tensor_box *box, const char *memory) {
    tensor_box_walk(box, move_out, (void *)memory);
}

void tensor_box_add(const tensor_box *box, const char *memory) {
    tensor_box_walk(box, add_out, (void *)memory);
}
