/* tensor_shape.c: the extent of a tensor, and whether its elements share memory. */
#include "base/tensor_shape.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/error.h"

#define LL(x) ((long long)(x))

static const char *const stride_names[4] = {"batch", "head", "row", "col"};

att_status att_shape_measure(const att_shape *s, int64_t *extent) {
    int64_t last = 0;
    bool empty = false, fits = true;
    for (int i = 0; i < 4; i++) {
        char field[32];
        snprintf(field, sizeof field, "%s.%s", s->name, stride_names[i]);
        empty = empty || s->size[i] == 0;
        if (s->size[i] <= 1)
            continue;
        ATT_REQUIRE(s->stride[i] >= 0, ATT_E_ARG, field, "%s=%lld: strides may not be negative",
                    field, LL(s->stride[i]));
        int64_t reach;
        fits = fits && att_mul(s->size[i] - 1, s->stride[i], &reach) &&
               att_add(last, reach, &last);
    }
    fits = fits && att_add(last, 1, &last) && att_mul(last, (int64_t)s->bytes, &last);
    ATT_REQUIRE(empty || fits, ATT_E_OVERFLOW, s->name,
                "%s: its sizes and strides reach past 2^63 bytes", s->name);
    *extent = empty ? 0 : last;
    return ATT_OK;
}

att_status att_shape_contiguous(const att_shape *s) {
    char field[32];
    snprintf(field, sizeof field, "%s.col", s->name);
    ATT_REQUIRE(s->size[3] <= 1 || s->stride[3] == 1, ATT_E_ARG, field,
                "%s=%lld: the head dimension must be contiguous (stride 1)", field,
                LL(s->stride[3]));
    return ATT_OK;
}

/* From the inside out, each stride must exceed the extent of the inner dimensions. */
att_status att_shape_disjoint(const att_shape *s) {
    bool used[4] = {false};
    int64_t reach = 1;
    for (int round = 0; round < 4; round++) {
        int inner = -1;
        for (int i = 0; i < 4; i++)
            if (!used[i] && s->size[i] > 1 && (inner < 0 || s->stride[i] < s->stride[inner]))
                inner = i;
        if (inner < 0)
            break;
        used[inner] = true;
        char field[32];
        snprintf(field, sizeof field, "%s.%s", s->name, stride_names[inner]);
        ATT_REQUIRE(s->stride[inner] >= reach, ATT_E_ALIAS, field,
                    "%s=%lld: elements of the output would share memory", field,
                    LL(s->stride[inner]));
        reach += (s->size[inner] - 1) * s->stride[inner];
    }
    return ATT_OK;
}

att_shape att_shape_of(const char *name, int64_t batch, int64_t heads, int64_t rows,
                       int64_t cols, const att_strides *st, size_t bytes) {
    return (att_shape){
        name, {batch, heads, rows, cols}, {st->batch, st->head, st->row, st->col}, bytes};
}
