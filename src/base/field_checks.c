/* field_checks.c: checks sizes, types and alignments of problems. */
#include "base/field_checks.h"

#include "base/checked.h"
#include "base/error.h"

att_status att_check_least(const att_least *sizes, size_t count) {
    for (size_t i = 0; i < count; i++)
        ATT_REQUIRE(sizes[i].value >= sizes[i].least, ATT_E_ARG, sizes[i].name,
                    "%s=%lld is below %lld", sizes[i].name, (long long)sizes[i].value,
                    (long long)sizes[i].least);
    return ATT_OK;
}

bool att_is_float(att_dtype dtype) {
    return dtype == ATT_F32 || dtype == ATT_F16 || dtype == ATT_BF16;
}

att_status att_check_float(att_dtype dtype, const char *field) {
    ATT_REQUIRE(att_is_float(dtype), ATT_E_ARG, field, "%s=%d is none of f32, f16, bf16", field,
                (int)dtype);
    return ATT_OK;
}

att_status att_check_alignment(int64_t alignment, att_dtype dtype, att_dtype dtype_o) {
    const int64_t element =
        att_min((int64_t)att_dtype_size(dtype), (int64_t)att_dtype_size(dtype_o));
    ATT_REQUIRE(alignment == 0 || (alignment >= element && (alignment & (alignment - 1)) == 0),
                ATT_E_ARG, "alignment",
                "alignment=%lld is neither 0 nor a power of two of at least %lld",
                (long long)alignment, (long long)element);
    return ATT_OK;
}
