// Functions for epilogues, for float and double, with the formulas of Strata's own ops; how epilogues read tensors, and how
// their values become results.
#pragma once
#include "cuda/custom/elements.cuh"
#include "cuda/custom/gemm_kernel_params.h"
#include "device/functors/activations.h"

namespace strata::gemm {
namespace functions {

template <class T> struct RealOf { using Type = T; };
template <> struct RealOf<int> { using Type = float; };
template <class T> using Real = typename RealOf<T>::Type;  // integers as floats

template <class T> __device__ __forceinline__ T relu(T x) { return fn::Relu<T>{}(x); }
__device__ __forceinline__ int relu(int x) { return max(x, 0); }
template <class T> __device__ __forceinline__ Real<T> gelu(T x) { return fn::Gelu<Real<T>>{}(Real<T>(x)); }
template <class T> __device__ __forceinline__ Real<T> gelu_tanh(T x) { return fn::GeluTanh<Real<T>>{}(Real<T>(x)); }
template <class T> __device__ __forceinline__ Real<T> silu(T x) { return fn::Silu<Real<T>>{}(Real<T>(x)); }
template <class T> __device__ __forceinline__ Real<T> sigmoid(T x) { return fn::Sigmoid<Real<T>>{}(Real<T>(x)); }
template <class T> __device__ __forceinline__ Real<T> mish(T x) { return fn::Mish<Real<T>>{}(Real<T>(x)); }
template <class T> __device__ __forceinline__ T leaky_relu(T x, T slope) { return x > T(0) ? x : x * slope; }
template <class T> __device__ __forceinline__ T square(T x) { return x * x; }
template <class T> __device__ __forceinline__ T clamp(T x, T least, T most) {
  return x < least ? least : x > most ? most : x;  // NaN stays NaN
}

}  // namespace functions

// What strata_load gives, with floating-point elements converted to the type of the sums.
template <class Sum, class Stored> struct Loaded { using Type = decltype(strata_load(Stored{})); };
template <> struct Loaded<double, strata_half> { using Type = double; };
template <> struct Loaded<double, strata_bfloat16> { using Type = double; };
template <> struct Loaded<double, float> { using Type = double; };
template <> struct Loaded<float, double> { using Type = float; };
template <> struct Loaded<int, double> { using Type = float; };  // the sums are integers, numbers are floats

struct Tf32 {  // a factor's element: a float of which tensor cores read the upper 19 bits
  float value;
};

// --- results ---------------------------------------------------------------------------------------------------------

// Bit patterns of 8-bit floats.
struct Float8E4M3 {
  unsigned char bits;
};
struct Float8E5M2 {
  unsigned char bits;
};

// The code of the nearest float with kMantissa bits of mantissa whose smallest normal number is 2^kLeast; ties go to even.
// `most` is the code of what exceeds the range, `nan` that of NaN.
template <int kMantissa, int kLeast>
__device__ __forceinline__ unsigned char float8_code(float v, unsigned most, unsigned nan) {
  const unsigned bits = __float_as_uint(v), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (unsigned char)(sign | nan);
  const int exponent = max(int(magnitude >> 23) - 127, kLeast);
  if (exponent > 16) return (unsigned char)(sign | most);
  // In units of the last place, which is 2^(exponent - kMantissa); those of normal numbers begin at 2^kMantissa.
  const int units =
    __float2int_rn(__uint_as_float(magnitude) * __uint_as_float(unsigned(kMantissa - exponent + 127) << 23));
  return (unsigned char)(sign | min(unsigned(((exponent - kLeast) << kMantissa) + units), most));
}

// Rounds a value of the epilogue to a result. Integers are rounded to the nearest and limited to their range.
template <class T, class V> __device__ __forceinline__ void put(T& to, V v) { strata_store(to, v); }
__device__ __forceinline__ void put(int& to, float v) { to = __float2int_rn(v); }
__device__ __forceinline__ void put(int& to, double v) { to = __double2int_rn(v); }
__device__ __forceinline__ void put(signed char& to, int v) { to = (signed char)(min(max(v, -128), 127)); }
__device__ __forceinline__ void put(signed char& to, float v) { put(to, __float2int_rn(v)); }
__device__ __forceinline__ void put(signed char& to, double v) { put(to, __double2int_rn(v)); }
template <class V> __device__ __forceinline__ void put(Float8E4M3& to, V v) {
  to.bits = float8_code<3, -6>(float(v), 0x7e, 0x7f);
}
template <class V> __device__ __forceinline__ void put(Float8E5M2& to, V v) {
  to.bits = float8_code<2, -14>(float(v), 0x7c, 0x7f);
}
// 16-bit floats have no conversion from other integers.
template <class V> __device__ __forceinline__ void put(strata_half& to, V v) { strata_store(to, float(v)); }
template <class V> __device__ __forceinline__ void put(strata_bfloat16& to, V v) { strata_store(to, float(v)); }

// |v| as bits that are ordered as integers; NaN is the largest.
template <class V> __device__ __forceinline__ uint32_t magnitude(V v) {
  return __float_as_uint(float(v)) & 0x7fffffffu;
}
// Of whole warps.
__device__ __forceinline__ void publish_amax(const KernelParams& p, uint32_t largest) {
  largest = __reduce_max_sync(0xffffffffu, largest);
  if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<uint32_t*>(p.amax), largest);
}

// --- operands --------------------------------------------------------------------------------------------------------

// The index of the current matrix in each dimension of the batch.
struct BatchIndex {
  int64_t at[Product::kMaxBatch];
  int64_t linear;
  __device__ __forceinline__ BatchIndex(const KernelParams& p, int64_t index) : linear(index) {
#pragma unroll 1
    for (int d = p.batch_dims; d-- > 0; index /= p.batch[d]) at[d] = index % p.batch[d];
  }
  __device__ __forceinline__ int64_t offset(const KernelParams& p, const int64_t (&strides)[Product::kMaxBatch]) const {
    int64_t sum = 0;
#pragma unroll 1
    for (int d = 0; d < p.batch_dims; ++d) sum += at[d] * strides[d];
    return sum;
  }
};

template <class Sum, class Stored> __device__ __forceinline__ auto element(const Stored* data, int64_t at) {
  return typename Loaded<Sum, Stored>::Type(strata_load(data[at]));
}

// bias[n]. kChecked: indices outside of the tensor read 0; otherwise the size was checked on the host.
template <class Sum, class Stored, bool kChecked> struct Vector {
  const Stored* data;
  int64_t stride, size;
  __device__ __forceinline__ Vector(const KernelParams& p, int i, const BatchIndex& batch)
      : data(reinterpret_cast<const Stored*>(p.extras[i].data) + batch.offset(p, p.extras[i].batch)),
        stride(p.extras[i].stride[0]),
        size(p.extras[i].size[0]) {}
  __device__ __forceinline__ auto operator[](int64_t at) const {
    using Type = typename Loaded<Sum, Stored>::Type;
    if (kChecked && uint64_t(at) >= uint64_t(size)) return Type(0);
    return element<Sum>(data, at * stride);
  }
};

// residual[m, n]
template <class Sum, class Stored, bool kChecked> struct Matrix {
  const Stored* data;
  int64_t rows, columns, row_stride, column_stride;
  __device__ __forceinline__ Matrix(const KernelParams& p, int i, const BatchIndex& batch)
      : data(reinterpret_cast<const Stored*>(p.extras[i].data) + batch.offset(p, p.extras[i].batch)),
        rows(p.extras[i].size[0]),
        columns(p.extras[i].size[1]),
        row_stride(p.extras[i].stride[0]),
        column_stride(p.extras[i].stride[1]) {}
  struct Row {
    const Matrix& matrix;
    int64_t row;
    __device__ __forceinline__ auto operator[](int64_t column) const {
      using Type = typename Loaded<Sum, Stored>::Type;
      if (kChecked && (uint64_t(row) >= uint64_t(matrix.rows) || uint64_t(column) >= uint64_t(matrix.columns)))
        return Type(0);
      return element<Sum>(matrix.data, row * matrix.row_stride + column * matrix.column_stride);
    }
  };
  __device__ __forceinline__ Row operator[](int64_t row) const { return {*this, row}; }
};

// scale: a number, or a tensor with one element per matrix of the batch.
template <class Sum, class Stored, class Batch>
__device__ __forceinline__ auto scalar(const KernelParams& p, int i, const Batch& batch) {
  const Extra& x = p.extras[i];
  return element<Sum>(reinterpret_cast<const Stored*>(x.data), batch.offset(p, x.batch));
}

}  // namespace strata::gemm
