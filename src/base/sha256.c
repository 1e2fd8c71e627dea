/* sha256.c: FIPS 180-4, section 6.2, as it is written there. */
#include "base/sha256.h"

#include <string.h>

enum { BLOCK = 64 };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t rotate(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static void add_block(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64];
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    for (int t = 16; t < 64; t++) {
        const uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        const uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; t++) {
        const uint32_t choose = (e & f) ^ (~e & g);
        const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        const uint32_t t1 =
            h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choose + constants[t] + w[t];
        const uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const uint32_t added[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += added[i];
}

void att_sha256_begin(att_sha256 *sha) {
    *sha = (att_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                  0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void att_sha256_add(att_sha256 *sha, const void *data, size_t bytes) {
    const unsigned char *from = data;
    while (bytes > 0) {
        const size_t filled = sha->bytes % BLOCK;
        const size_t take = bytes < BLOCK - filled ? bytes : BLOCK - filled;
        memcpy(sha->block + filled, from, take);
        from += take;
        bytes -= take;
        sha->bytes += take;
        if (sha->bytes % BLOCK == 0)
            add_block(sha->state, sha->block);
    }
}

void att_sha256_end(att_sha256 *sha, char hex[ATT_SHA256_HEX]) {
    static const unsigned char padding[BLOCK] = {0x80};
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(sha->bytes * 8 >> (56 - 8 * i));
    const size_t filled = sha->bytes % BLOCK;
    att_sha256_add(sha, padding,
                   filled < BLOCK - 8 ? BLOCK - 8 - filled : 2 * BLOCK - 8 - filled);
    att_sha256_add(sha, length, sizeof length);
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 64; i++)
        hex[i] = digits[sha->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = '\0';
}

void att_sha256_of(const void *data, size_t bytes, char hex[ATT_SHA256_HEX]) {
    att_sha256 sha;
    att_sha256_begin(&sha);
    att_sha256_add(&sha, data, bytes);
    att_sha256_end(&sha, hex);
}
