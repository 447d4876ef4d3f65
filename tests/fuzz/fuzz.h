/*
 * fuzz.h: the one call of a fuzz target. libFuzzer drives it in `make fuzz`;
 * replay.c feeds it the kept corpus in `make test`.
 */
#ifndef PSD_TESTS_FUZZ_FUZZ_H
#define PSD_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
