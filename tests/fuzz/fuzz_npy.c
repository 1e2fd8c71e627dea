/* fuzz_npy.c: .npy files: every accepted header must describe bytes that exist. */
#include <stdlib.h>
#include <string.h>

#include "lab/problem/npy_header.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

/* What was read, written and read again must be the same. */
static void check_round(const lab_npy *array, size_t bytes) {
    char header[512];
    lab_npy again;
    size_t offset = 0;
    lab_message why;
    const size_t length = lab_npy_header_format(header, array->type, array->dims, array->shape);
    unsigned char *file = calloc(1, length + bytes);
    if (!file)
        abort();
    memcpy(file, header, length);
    if (!lab_npy_header_parse(&again, &offset, file, length + bytes, "again", &why))
        finding("a header that was written does not parse: %s", why.text);
    if (offset != length || again.type != array->type || again.dims != array->dims ||
        again.count != array->count ||
        memcmp(again.shape, array->shape, (size_t)array->dims * sizeof array->shape[0]) != 0)
        finding("a header changes when it is written and read again");
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_npy array;
    lab_message why;
    memset(&why, 0, sizeof why);
    if (!lab_npy_open(&array, input_file(0, data, size), &why)) {
        check_message(&why);
        return 0;
    }
    unsigned sum = 0;
    const size_t count = (size_t)array.count * lab_npy_type_size(array.type);
    const uintptr_t start = (uintptr_t)array.data - (uintptr_t)array.mapping;
    if (count > 0 && (array.mapping_bytes != size || start > size || count > size - start))
        finding("%zu bytes of elements, but the file of %zu ends before", count, size);
    for (size_t i = 0; i < count; i++)
        sum += ((const unsigned char *)array.data)[i];
    if (sum == 1) /* so that the bytes are read */
        fputc('.', nowhere());
    check_round(&array, count);
    lab_npy_close(&array);
    return 0;
}
