/* text_input.h: a fuzzer's bytes in the form that readers take: a file, a text. */
#ifndef FUZZ_TEXT_INPUT_H
#define FUZZ_TEXT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lab/base/message.h"

/* The path of an in-memory file with these bytes, valid until the next call with the same
 * number; `number` 0 .. 3. */
const char *input_file(int number, const uint8_t *data, size_t size);

/* A new folder, in memory where the system has a place for it: once per program, which removes
 * it. */
const char *input_folder(void);

/* The bytes with a terminating zero, in memory of exactly that size; the caller frees it. */
char *input_text(const uint8_t *data, size_t size);

/* A refusal must say why, in one line that is safe for a terminal. */
void check_message(const lab_message *why);

/* A stream for output that nobody reads. */
FILE *nowhere(void);

/* libFuzzer's mutator, and one that replaces JSON values with values of other types. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t mutate_json(uint8_t *data, size_t size, size_t most, unsigned seed);

#endif
