/* test_cuda_embed.c: the build put into the library what kernels.def lists, intact, and its
 * source text compiles outside the source tree. Without nvcc the code is a stand-in
 * (mk/images.mk), from the same list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sha256.h"
#include "cuda/embed.h"
#include "cuda/jit.h"
#include "core/registry.h"
#include "tests/support/check.h"
#include "tests/support/instrumented.h"

static const int gpus[] = {80, 86, 89, 90};
enum { GPUS = sizeof gpus / sizeof gpus[0] };

static const att_cuda_kernel *cuda_row(size_t i) {
    return att_registry_row(i)->cuda;
}

/* One image for all GPUs of 8.x and its PTX, one for 9.0, and no others. */
static void test_codes__every_row_and_target__embedded(void **state) {
    (void)state;
    size_t expected = 0, found = 0;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_cuda_kernel *row = cuda_row(i);
        if (!row)
            continue;
        for (int g = 0; g < GPUS; g++) {
            if (!(row->targets & att_cuda_target_bit(gpus[g])))
                continue;
            const att_embedded_code *code = att_embedded_code_find(row->id, gpus[g]);
            if (!code)
                fail_msg("%s has no code for %d", row->id, gpus[g]);
            assert_int_equal(code->cc, gpus[g] / 10 * 10);
        }
        if (row->targets & ATT_SM8X && !att_embedded_code_find(row->id, 0))
            fail_msg("%s has no PTX", row->id);
        expected += row->targets & ATT_SM8X ? 2u : 0u;
        expected += row->targets & ATT_SM90 ? 1u : 0u;
    }
    while (att_embedded_codes[found].id)
        found++;
    assert_int_equal(found, expected);
}

static void test_codes__bytes__have_the_digest_of_the_build(void **state) {
    (void)state;
    for (const att_embedded_code *code = att_embedded_codes; code->id; code++) {
        static const unsigned char fat_binary[] = {0x50, 0xed, 0x55, 0xba};
        char digest[ATT_SHA256_HEX];
        att_sha256_of(code->bytes, code->size, digest);
        assert_string_equal(digest, code->sha256);
        assert_true(code->size > sizeof fat_binary);
        assert_memory_equal(code->bytes, fat_binary, sizeof fat_binary);
        assert_int_equal((uintptr_t)code->bytes % 64, 0);
    }
}

static void test_code_find__unknown__null(void **state) {
    (void)state;
    assert_null(att_embedded_code_find("no_such_kernel", 90));
    assert_null(att_embedded_text_find("kernels/no_such.cu"));
}

static void test_texts__every_source__embedded(void **state) {
    (void)state;
    char name[128];
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_cuda_kernel *row = cuda_row(i);
        if (!row)
            continue;
        snprintf(name, sizeof name, "kernels/%s.cu", row->source);
        const att_embedded_text *text = att_embedded_text_find(name);
        if (!text)
            fail_msg("%s is not in the library", name);
        assert_int_equal(strlen(text->text), text->size);
    }
    assert_non_null(att_embedded_text_find("kernels/fwd_params.h"));
}

static bool seen_before(size_t i) {
    for (size_t j = 0; j < i; j++)
        if (cuda_row(j) && strcmp(cuda_row(j)->source, cuda_row(i)->source) == 0)
            return true;
    return false;
}

static bool smaller(const att_cuda_kernel *a, const att_cuda_kernel *b) {
    return a->d_qk * a->tile_m < b->d_qk * b->tile_m;
}

/* The smallest row of the same source: the quickest to compile. */
static const att_cuda_kernel *least_like(size_t i) {
    const att_cuda_kernel *least = cuda_row(i);
    for (size_t j = i; j < att_registry_count(); j++)
        if (cuda_row(j) && strcmp(cuda_row(j)->source, least->source) == 0 &&
            smaller(cuda_row(j), least))
            least = cuda_row(j);
    return least;
}

/* The real compiler, if this machine has it; it needs no GPU. One row per source: those of other
 * roles include the same files, and nvcc compiles them all. The compiler is not instrumented. */
static void test_texts__real_nvrtc__compile(void **state) {
    (void)state;
    if (!att_jit_available(NULL)) {
        print_message("skipped: no NVRTC on this machine\n");
        skip();
    }
    for (size_t i = 0; i < att_registry_count(); i++) {
        if (!cuda_row(i) || seen_before(i))
            continue;
        const att_cuda_kernel *row = least_like(i);
        unsigned char *code;
        size_t size;
        const int cc = row->targets & ATT_SM89 ? 89 : 90;
        assert_ok(att_jit_compile(&code, &size, row, cc, NULL, ""));
        assert_memory_equal(code, "\177ELF", 4);
        att_free(code);
        if (is_instrumented())
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes__every_row_and_target__embedded),
        cmocka_unit_test(test_codes__bytes__have_the_digest_of_the_build),
        cmocka_unit_test(test_code_find__unknown__null),
        cmocka_unit_test(test_texts__every_source__embedded),
        cmocka_unit_test(test_texts__real_nvrtc__compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
