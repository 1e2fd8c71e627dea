/* fuzz_arrays.c: an attention problem from three .npy files: whatever their shapes, the derived
 * problem must stay within their bytes. */
#include <string.h>

#include "lab/attention/array_files.h"
#include "tests/fuzz/random_input.h"
#include "tests/fuzz/text_input.h"

/* The input is three files, the first two preceded by their lengths: two bytes each. */
static size_t take(const uint8_t **data, size_t *size) {
    size_t length = 0;
    if (*size >= 2) {
        length = (size_t)((*data)[0] | (*data)[1] << 8);
        *data += 2;
        *size -= 2;
    }
    return length < *size ? length : *size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_array_paths paths = {.uint16_is_bf16 = true, .o = "/nonexistent/o.npy"};
    for (int i = 0; i < 3; i++) {
        const size_t length = i < 2 ? take(&data, &size) : size;
        paths.input[i] = input_file(i, data, length);
        data += length;
        size -= length;
    }
    lab_spec base;
    lab_array_files files;
    lab_message why;
    memset(&why, 0, sizeof why);
    lab_spec_init(&base);
    if (!lab_array_files_open(&files, &paths, &base, &why)) {
        check_message(&why);
        return 0;
    }
    if (lab_array_files_flops(&files) < 0.0)
        finding("work below zero");
    json_decref(lab_array_files_json(&files));
    lab_array_files_close(&files);
    return 0;
}
