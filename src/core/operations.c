/* operations.c: the operations of the library. */
#include "core/operation.h"

static const att_operation *const operations[] = {
#define ATT_OPERATION(name) &att_operation_##name,
#include "kernels/operations.def"
};

const att_operation *att_operation_at(size_t i) {
    return i < sizeof operations / sizeof operations[0] ? operations[i] : NULL;
}
