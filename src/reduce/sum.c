/* sum.c: chooses the instruction set, once; see sum.h. */
#include "reduce/sum.h"

#if defined(__x86_64__)
sum_call sum_elements_avx2;

unsigned sum_elements(psd_dtype dtype, psd_op op,
                      const struct sum_inputs *inputs, void *const *outputs,
                      unsigned output_count, size_t count)
{
    if (__builtin_cpu_supports("avx2")) {
        return sum_elements_avx2(dtype, op, inputs, outputs, output_count,
                                 count);
    }
    return sum_elements_base(dtype, op, inputs, outputs, output_count, count);
}
#else
unsigned sum_elements(psd_dtype dtype, psd_op op,
                      const struct sum_inputs *inputs, void *const *outputs,
                      unsigned output_count, size_t count)
{
    return sum_elements_base(dtype, op, inputs, outputs, output_count, count);
}
#endif
