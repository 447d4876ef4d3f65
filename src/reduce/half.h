/*
 * half.h: numbers of 16 bits, to float and back: to nearest, ties to even.
 * Pure; any thread.
 */
#ifndef PSD_REDUCE_HALF_H
#define PSD_REDUCE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float load_bf16(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

/* Round to nearest, ties to even; a NaN stays one. */
static inline uint16_t store_bf16(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t nan = (bits & 0x7fffffffu) > 0x7f800000u;
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;

    return (uint16_t)(nan ? (bits >> 16 | 0x40u) : rounded);
}

static inline float load_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t rest = half & 0x7fffu;
    /* Normal numbers: move the exponent; 2^112 rescales subnormals too. */
    float scaled = float_of_bits(rest << 13) * 0x1p112f;
    uint32_t bits = bits_of_float(scaled);

    bits = rest >= 0x7c00u ? (0x7f800000u | rest << 13) : bits;
    return float_of_bits(bits | sign);
}

/* Round to nearest, ties to even, with subnormals and infinities. */
static inline uint16_t store_f16(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t rest = bits & 0x7fffffffu;
    uint32_t normal =
        (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
    /* Adding 0.5 puts the last bit of a subnormal half at the last bit of the
     * sum, so that the addition itself rounds. */
    uint32_t small = bits_of_float(float_of_bits(rest) + 0.5f) - 0x3f000000u;
    uint32_t half = rest < 0x38800000u ? small : normal;

    half = rest >= 0x477ff000u ? 0x7c00u : half;
    half = rest > 0x7f800000u ? (0x7e00u | (rest >> 13 & 0x3ffu)) : half;
    return (uint16_t)(half | sign);
}

#endif
