/* random_input.h: choices drawn from a fuzzer's bytes, and how a harness reports a finding. */
#ifndef FUZZ_RANDOM_INPUT_H
#define FUZZ_RANDOM_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The entry points for libFuzzer. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes of the input, and once they are used up, numbers generated from what was read: a short
 * input is a whole case too. */
typedef struct random_input {
    const uint8_t *at;
    size_t left;
    uint64_t state;
} random_input;

random_input random_input_of(const uint8_t *data, size_t size);

uint8_t draw_byte(random_input *in);
uint32_t draw_u32(random_input *in);
uint64_t draw_u64(random_input *in);

/* lo .. hi, both included. */
int64_t draw_between(random_input *in, int64_t lo, int64_t hi);

/* True in about `percent` of 100 draws. */
bool draw_chance(random_input *in, int percent);

/* A troublesome number: 0, -1, limits of the types, squares that just overflow, or any. */
int64_t draw_odd(random_input *in);

/* From the generator alone, without consuming input: for contents of arrays. Uniform in [-1,
 * 1). */
double draw_value(random_input *in);

/* Print what is wrong and abort: libFuzzer then keeps the input. */
_Noreturn void finding(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
