// Converts runs of elements between storage dtypes and the three compute types. T is float, double or int64_t; bools are
// also loaded as bytes of 0 and 1 (T is uint8_t).
#pragma once
#include <algorithm>

#include "tensor/dtype.h"

namespace strata::cpu {

// dst[i] = src[i * stride], converted.
template <class T> void load_run(T* dst, const std::byte* src, DType type, int64_t stride, int64_t n);
// dst[i * stride] = src[i], converted.
template <class T> void store_run(const T* src, std::byte* dst, DType type, int64_t stride, int64_t n);

// convert<To>, in a form that GCC vectorizes for bools.
template <class To, class From> inline To convert_element(From v) {
  if constexpr (std::is_same_v<From, BoolByte> && std::is_arithmetic_v<To>) return v.byte ? To(1) : To(0);
  else return convert<To>(v);
}

// Writes each of n elements, which are `step` apart, `times` times; constant numbers of times are vectorized.
template <int64_t kTimes, class From, class To>
inline void repeat_each_of(const From* from, int64_t step, int64_t n, To* to) {
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < kTimes; ++i) to[j * kTimes + i] = convert_element<To>(from[j * step]);
}
template <class From, class To>
inline void repeat_each(const From* from, int64_t step, int64_t n, int64_t times, To* to) {
  if (times == 2 && step == 1) return repeat_each_of<2>(from, 1, n, to);
  if (times == 3) return repeat_each_of<3>(from, step, n, to);
  if (times == 4) return repeat_each_of<4>(from, step, n, to);
  for (int64_t j = 0; j < n; ++j) std::fill_n(to + j * times, times, convert_element<To>(from[j * step]));
}

// memcpy for runs of some KiB. The C library uses `rep movsb` from 2 KiB on, which some processors execute ten times slower
// if the two addresses are aligned differently.
void copy_run(void* dst, const void* src, size_t bytes);

// The same for `rows` runs, whose beginnings are dst_step and src_step bytes apart.
void copy_runs(void* dst, int64_t dst_step, const void* src, int64_t src_step, int64_t rows, size_t bytes);
// Fills `bytes` with copies of 16 bytes, the last of them cut off.
void repeat_block(void* dst, const void* block, size_t bytes);
// n elements of `size` bytes (1, 2, 4 or 8) in the opposite order: dst[i] = last[-i].
void reverse_run(void* dst, const void* last, int64_t n, size_t size);

// Contiguous runs of the narrow floats, with hardware instructions.
void half_to_float(const Half* src, float* dst, size_t n);
void float_to_half(const float* src, Half* dst, size_t n);
void bfloat_to_float(const BFloat16* src, float* dst, size_t n);
void float_to_bfloat(const float* src, BFloat16* dst, size_t n);

}  // namespace strata::cpu
