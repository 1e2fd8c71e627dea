/* sized.c: structs that begin with their size. */
#include "base/sized.h"

#include <string.h>

#include "base/error.h"

enum { SIZE_MOST = 1 << 16 }; /* above this the field is garbage, not a later version */

static att_status check_size(size_t given, size_t ours, size_t first, const char *name) {
    ATT_REQUIRE(given == first || (given >= ours && given <= SIZE_MOST), ATT_E_STRUCT, "size",
                "%s.size=%zu, this library expects %zu: set it to sizeof", name, given, ours);
    return ATT_OK;
}

static size_t given_size(const void *descriptor) {
    size_t size;
    memcpy(&size, descriptor, sizeof size);
    return size;
}

att_status att_sized_copy(void *to, size_t bytes, size_t first, const void *from,
                          const char *name) {
    const size_t given = given_size(from);
    ATT_TRY(check_size(given, bytes, first, name));
    for (size_t i = bytes; i < given; i++)
        ATT_REQUIRE(((const unsigned char *)from)[i] == 0, ATT_E_STRUCT, "size",
                    "%s uses a field that this library does not know (byte %zu)", name, i);
    memset(to, 0, bytes);
    memcpy(to, from, given < bytes ? given : bytes);
    memcpy(to, &bytes, sizeof bytes);
    return ATT_OK;
}

att_status att_sized_return(void *to, const void *from, size_t bytes, size_t first,
                            const char *name) {
    const size_t given = given_size(to);
    ATT_TRY(check_size(given, bytes, first, name));
    memset(to, 0, given);
    memcpy(to, from, given < bytes ? given : bytes);
    memcpy(to, &given, sizeof given);
    return ATT_OK;
}
