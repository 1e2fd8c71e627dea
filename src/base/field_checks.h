/* field_checks.h: checks of fields that the problems of several operations share. Errors name
 * the field. */
#ifndef ATT_BASE_FIELD_CHECKS_H
#define ATT_BASE_FIELD_CHECKS_H

#include <stdbool.h>

#include "attest.h"

/* A size and its minimum. */
typedef struct att_least {
    const char *name;
    int64_t value, least;
} att_least;

att_status att_check_least(const att_least *sizes, size_t count);

/* f32, f16 or bf16. */
bool att_is_float(att_dtype dtype);
att_status att_check_float(att_dtype dtype, const char *field);

/* 0, or a power of two that is at least the smaller element size of the two types. */
att_status att_check_alignment(int64_t alignment, att_dtype dtype, att_dtype dtype_o);

#endif
