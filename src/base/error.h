/* error.h: thread-local error detail and the two macros that every failing path uses. */
#ifndef ATT_BASE_ERROR_H
#define ATT_BASE_ERROR_H

#include "attest.h"

/* Record a failure on this thread and return `status`. `field` may be "". */
att_status att_fail(att_status status, const char *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Set the CUDA code of the failure just recorded. */
void att_error_cuda_code(int code);

/* Return with `status` unless `condition` holds. The text should begin with the field. */
#define ATT_REQUIRE(condition, status, field, ...)                                             \
    do {                                                                                       \
        if (!(condition))                                                                      \
            return att_fail((status), (field), __VA_ARGS__);                                   \
    } while (0)

/* Return what `call` returned unless it is ATT_OK. */
#define ATT_TRY(call)                                                                          \
    do {                                                                                       \
        const att_status att_try_status = (call);                                              \
        if (att_try_status != ATT_OK)                                                          \
            return att_try_status;                                                             \
    } while (0)

#endif
