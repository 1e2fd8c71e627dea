/* test_sha256.c: the digest, against the vectors of FIPS 180-4 and NIST's test suite. */
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "tests/support/check.h"

static void check(const void *data, size_t bytes, const char *want) {
    char hex[ATT_SHA256_HEX];
    att_sha256_of(data, bytes, hex);
    assert_string_equal(hex, want);
}

static void test_sha256__vectors__digests(void **state) {
    (void)state;
    static const struct {
        const char *text, *digest;
    } vectors[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmno"
         "p"
         "qrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        check(vectors[i].text, strlen(vectors[i].text), vectors[i].digest);
}

static void test_sha256__bytes__digests(void **state) {
    (void)state;
    check((const unsigned char[]){0xbd}, 1,
          "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
    check((const unsigned char[]){0xc9, 0x8c, 0x8e, 0x55}, 4,
          "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504");
}

static void check_repeated(char letter, size_t count, const char *want) {
    char *text = malloc(count);
    assert_non_null(text);
    memset(text, letter, count);
    check(text, count, want);
    free(text);
}

/* Lengths at which the padding just fits its block and just does not. */
static void test_sha256__lengths_at_the_edge_of_a_block__digests(void **state) {
    (void)state;
    check_repeated(0, 55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
    check_repeated(0, 56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
    check_repeated(0, 57, "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785");
    check_repeated(0, 64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
    check_repeated('a', 1000000,
                   "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void test_sha256__data_in_pieces__same_as_in_one(void **state) {
    (void)state;
    char text[300], whole[ATT_SHA256_HEX], pieces[ATT_SHA256_HEX];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7);
    att_sha256_of(text, sizeof text, whole);
    for (size_t step = 1; step < 130; step++) {
        att_sha256 sha;
        att_sha256_begin(&sha);
        for (size_t at = 0; at < sizeof text; at += step)
            att_sha256_add(&sha, text + at, step < sizeof text - at ? step : sizeof text - at);
        att_sha256_end(&sha, pieces);
        assert_string_equal(pieces, whole);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256__vectors__digests),
        cmocka_unit_test(test_sha256__bytes__digests),
        cmocka_unit_test(test_sha256__lengths_at_the_edge_of_a_block__digests),
        cmocka_unit_test(test_sha256__data_in_pieces__same_as_in_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
