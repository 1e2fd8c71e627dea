/* lab_operations.c: the operations of the laboratory. */
#include "lab/problem/lab_operation.h"

static const lab_operation *const operations[] = {
#define ATT_OPERATION(name) &lab_operation_##name,
#include "kernels/operations.def"
};

const lab_operation *lab_operation_at(size_t i) {
    return i < sizeof operations / sizeof operations[0] ? operations[i] : NULL;
}
