/* sha256.h: the digest that names code and cache entries (FIPS 180-4). */
#ifndef ATT_BASE_SHA256_H
#define ATT_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct att_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64]; /* bytes % 64 of it are filled */
} att_sha256;

enum { ATT_SHA256_HEX = 65 }; /* 64 lower-case digits and a zero */

void att_sha256_begin(att_sha256 *sha);
void att_sha256_add(att_sha256 *sha, const void *data, size_t bytes);
void att_sha256_end(att_sha256 *sha, char hex[ATT_SHA256_HEX]);

/* All three, for data in one piece. */
void att_sha256_of(const void *data, size_t bytes, char hex[ATT_SHA256_HEX]);

#endif
