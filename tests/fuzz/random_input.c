/* random_input.c: bytes first, then a generator seeded by them. */
#include "tests/fuzz/random_input.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/rng.h"

random_input random_input_of(const uint8_t *data, size_t size) {
    return (random_input){.at = data, .left = size, .state = size};
}

uint8_t draw_byte(random_input *in) {
    if (in->left == 0)
        return (uint8_t)(rng_next(&in->state) >> 32);
    in->left--;
    in->state = (in->state + *in->at + 1u) * UINT64_C(6364136223846793005);
    return *in->at++;
}

uint32_t draw_u32(random_input *in) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 8 | draw_byte(in);
    return value;
}

uint64_t draw_u64(random_input *in) {
    const uint64_t high = draw_u32(in);
    return high << 32 | draw_u32(in);
}

int64_t draw_between(random_input *in, int64_t lo, int64_t hi) {
    const uint64_t count = (uint64_t)(hi - lo) + 1;
    const uint64_t drawn = count <= 256 ? draw_byte(in) : draw_u32(in);
    return lo + (int64_t)(drawn % count);
}

bool draw_chance(random_input *in, int percent) {
    return draw_byte(in) * 100 < percent * 256;
}

int64_t draw_odd(random_input *in) {
    static const int64_t list[] = {
        0,
        1,
        2,
        3,
        7,
        16,
        255,
        256,
        257,
        65535,
        65536,
        -1,
        -2,
        INT32_MAX,
        INT32_MIN,
        INT64_C(2147483648),
        INT64_MAX,
        UINT32_MAX,
        INT64_MIN,
        INT64_MAX - 1,
        1 << 20,
        INT64_MAX / 2,
        1 << 30,
        INT64_MAX / 4 + 1,
        3037000499 /* its square fits in 63 bits, that of the next does not */,
        3037000500};
    const size_t count = sizeof list / sizeof list[0];
    const size_t which = draw_byte(in) % (count + 4);
    return which < count ? list[which] : (int64_t)draw_u64(in);
}

double draw_value(random_input *in) {
    return (double)rng_signed(&in->state);
}

void finding(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("FINDING: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    abort();
}
