/* error.c: status names and the thread-local error detail. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local att_error last_error;

att_status att_fail(att_status status, const char *field, const char *format, ...) {
    last_error.status = status;
    last_error.cuda_code = 0;
    snprintf(last_error.field, sizeof last_error.field, "%s", field);
    va_list list;
    va_start(list, format);
    vsnprintf(last_error.text, sizeof last_error.text, format, list);
    va_end(list);
    return status;
}

void att_error_cuda_code(int code) {
    last_error.cuda_code = code;
}

const att_error *att_last_error(void) {
    return &last_error;
}

const char *att_status_name(att_status status) {
    switch (status) {
    case ATT_OK:
        return "ATT_OK";
    case ATT_E_ARG:
        return "ATT_E_ARG";
    case ATT_E_STRUCT:
        return "ATT_E_STRUCT";
    case ATT_E_OVERFLOW:
        return "ATT_E_OVERFLOW";
    case ATT_E_UNSUPPORTED:
        return "ATT_E_UNSUPPORTED";
    case ATT_E_ALIAS:
        return "ATT_E_ALIAS";
    case ATT_E_DATA:
        return "ATT_E_DATA";
    case ATT_E_WORKSPACE:
        return "ATT_E_WORKSPACE";
    case ATT_E_MEMORY:
        return "ATT_E_MEMORY";
    case ATT_E_DEVICE:
        return "ATT_E_DEVICE";
    case ATT_E_SYSTEM:
        return "ATT_E_SYSTEM";
    case ATT_E_CUDA:
        return "ATT_E_CUDA";
    }
    return "ATT_E_?";
}

const char *att_version(void) {
    return ATT_VERSION_STRING;
}
