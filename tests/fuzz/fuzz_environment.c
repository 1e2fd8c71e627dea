/* fuzz_environment.c: the environment variables that affect opening a context. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/api_calls.h"
#include "tests/fuzz/text_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {
        "ATTEST_THREADS",    "ATTEST_ISA",     "ATTEST_DEVICE",          "ATTEST_KERNEL",
        "ATTEST_ALLOW_SLOW", "ATTEST_AMX_F32", "ATTEST_ALLOW_UNATTESTED"};
    char *text = input_text(data, size), *at = text;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *end = at ? strchr(at, '\n') : NULL;
        if (end)
            *end++ = '\0';
        if (at && *at)
            setenv(names[i], at, 1);
        else
            unsetenv(names[i]);
        at = end;
    }
    /* Requested threads are really started. */
    const char *threads = getenv("ATTEST_THREADS");
    if (threads && strtol(threads, NULL, 10) > 4)
        setenv("ATTEST_THREADS", "5000", 1);
    setenv("ATTEST_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
    setenv("ATTEST_ROWS", "", 1);
    att_context *ctx = NULL;
    const att_status status = att_context_create(&ctx, NULL);
    if (status)
        api_check_error(status);
    att_context_destroy(ctx);
    free(text);
    return 0;
}
