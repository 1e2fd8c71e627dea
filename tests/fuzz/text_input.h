/* text_input.h: a fuzzer's bytes as what readers take: a file, a text. */
#ifndef FUZZ_TEXT_INPUT_H
#define FUZZ_TEXT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lab/base/message.h"

/* The path of a file in memory that holds the bytes, until the next call with the same number; `number` 0 .. 3. */
const char *input_file(int number, const uint8_t *data, size_t size);

/* The bytes with a zero behind them, in memory of exactly that size; the caller frees it. */
char *input_text(const uint8_t *data, size_t size);

/* What was refused must say why, in one line that a terminal may see. */
void check_message(const lab_message *why);

/* Where output goes that nobody reads. */
FILE *nowhere(void);

/* The mutator of libFuzzer, and one that puts values of other kinds into the places of JSON values. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t mutate_json(uint8_t *data, size_t size, size_t most, unsigned seed);

#endif
