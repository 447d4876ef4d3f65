/*
 * crc.h: crc32c (Castagnoli), by the processor's instruction where there is
 * one. Guards control frames and is the digest of replicas. Any thread.
 */
#ifndef PSD_BASE_CRC_H
#define PSD_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Continue `crc` (0 to begin) over `size` bytes. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

/* The portable code, for the test that compares the two. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size);

#endif
