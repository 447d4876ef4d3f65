/*
 * crc.c: see crc.h. The instruction has a latency of three cycles and a
 * throughput of one, so a long input runs as three streams that are joined by
 * multiplying with x^(8n) mod P, n being the length of one stream. The
 * multiplication is four table look-ups per join, tables made once.
 */
#include "base/crc.h"

#include <pthread.h>
#include <string.h>

#define CRC_POLYNOMIAL UINT32_C(0x82f63b78) /* reflected */
#define CRC_STREAM 2048                     /* bytes of one of three streams */

static uint32_t byte_table[8][256];
static uint32_t shift_table[4][256]; /* over CRC_STREAM bytes of zeros */
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

/* Appending zeros is linear: what becomes of each single bit tells all. */
static void shifts_make(void)
{
    for (int bit = 0; bit < 32; bit++) {
        uint32_t crc = UINT32_C(1) << bit;
        uint32_t *table = shift_table[bit / 8];

        for (int n = 0; n < CRC_STREAM; n++) {
            crc = (crc >> 8) ^ byte_table[0][crc & 0xff];
        }
        for (uint32_t i = 0; i < 256; i++) {
            table[i] ^= (i >> (bit % 8) & 1) != 0 ? crc : 0;
        }
    }
}

static void tables_make(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;

        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? CRC_POLYNOMIAL : 0);
        }
        byte_table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int k = 1; k < 8; k++) {
            uint32_t below = byte_table[k - 1][i];

            byte_table[k][i] = (below >> 8) ^ byte_table[0][below & 0xff];
        }
    }
    shifts_make();
}

static uint32_t portable_run(uint32_t crc, const uint8_t *data, size_t size)
{
    while (size >= 8) {
        uint64_t word;

        memcpy(&word, data, 8);
        word ^= crc;
        crc = byte_table[7][word & 0xff] ^ byte_table[6][(word >> 8) & 0xff] ^
              byte_table[5][(word >> 16) & 0xff] ^
              byte_table[4][(word >> 24) & 0xff] ^
              byte_table[3][(word >> 32) & 0xff] ^
              byte_table[2][(word >> 40) & 0xff] ^
              byte_table[1][(word >> 48) & 0xff] ^ byte_table[0][word >> 56];
        data += 8;
        size -= 8;
    }
    while (size-- > 0) {
        crc = (crc >> 8) ^ byte_table[0][(crc ^ *data++) & 0xff];
    }
    return crc;
}

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size)
{
    pthread_once(&tables_once, tables_make);
    return ~portable_run(~crc, data, size);
}

#if defined(__x86_64__)
#include <nmmintrin.h>

static uint32_t shift_stream(uint32_t crc)
{
    return shift_table[0][crc & 0xff] ^ shift_table[1][(crc >> 8) & 0xff] ^
           shift_table[2][(crc >> 16) & 0xff] ^ shift_table[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t
hardware_run(uint32_t start, const uint8_t *data, size_t size)
{
    uint64_t crc = start;

    while (size >= (size_t)3 * CRC_STREAM) {
        uint64_t one = 0;
        uint64_t two = 0;

        for (size_t i = 0; i < CRC_STREAM; i += 8) {
            uint64_t word[3];

            memcpy(&word[0], data + i, 8);
            memcpy(&word[1], data + CRC_STREAM + i, 8);
            memcpy(&word[2], data + (size_t)2 * CRC_STREAM + i, 8);
            crc = _mm_crc32_u64(crc, word[0]);
            one = _mm_crc32_u64(one, word[1]);
            two = _mm_crc32_u64(two, word[2]);
        }
        crc = shift_stream((uint32_t)crc) ^ one;
        crc = shift_stream((uint32_t)crc) ^ two;
        data += (size_t)3 * CRC_STREAM;
        size -= (size_t)3 * CRC_STREAM;
    }
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;

        memcpy(&word, data, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    while (size-- > 0) {
        crc = _mm_crc32_u8((uint32_t)crc, *data++);
    }
    return (uint32_t)crc;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
    pthread_once(&tables_once, tables_make);
    if (__builtin_cpu_supports("sse4.2")) {
        return ~hardware_run(~crc, data, size);
    }
    return ~portable_run(~crc, data, size);
}
#else
uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
    return crc32c_portable(crc, data, size);
}
#endif
