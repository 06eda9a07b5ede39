// Included before the kernels of load_inline: what device code written for nvcc and PyTorch's headers expects.
#pragma once
#include <stdint.h>
#include "cuda/custom/elements.cuh"

#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807ll
#ifndef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define NAN __builtin_bit_cast(float, 0x7fffffff)
#endif
#define M_PI 3.14159265358979323846
#define C10_RESTRICT __restrict__
#define C10_HOST_DEVICE __host__ __device__
#define CUDA_KERNEL_LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)

namespace c10 {

// 16-bit floats: arithmetic is that of float, results are rounded to the nearest.
template <class Bits> struct Float16 : Bits {
  __device__ Float16() {}
  __device__ Float16(float v) { strata_store(static_cast<Bits&>(*this), v); }
  __device__ operator float() const { return strata_load(static_cast<const Bits&>(*this)); }
  __device__ Float16& operator+=(float v) { return *this = Float16(float(*this) + v); }
  __device__ Float16& operator-=(float v) { return *this = Float16(float(*this) - v); }
  __device__ Float16& operator*=(float v) { return *this = Float16(float(*this) * v); }
  __device__ Float16& operator/=(float v) { return *this = Float16(float(*this) / v); }
};
using Half = Float16<strata_half>;
using BFloat16 = Float16<strata_bfloat16>;

}  // namespace c10
namespace at {
using c10::BFloat16;
using c10::Half;
}  // namespace at

#include "cuda/custom/extension_accessor.h"
