/* lab_operations.c: the operations of the laboratory. */
#include "lab/problem/lab_operation.h"

static const lab_operation *const operations[] = {
#define ATT_OPERATION(name) &lab_operation_##name,
#include "kernels/operations.def"
};

int64_t lab_outputs_width(const lab_outputs *outputs, int set) {
    int64_t width = 0;
    for (int i = 0; i < outputs->count; i++)
        width += outputs->list[i].set == set ? outputs->list[i].d : 0;
    return width;
}

const lab_operation *lab_operation_at(size_t i) {
    return i < sizeof operations / sizeof operations[0] ? operations[i] : NULL;
}
