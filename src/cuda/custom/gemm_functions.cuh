// Functions for epilogues, for float and double, with the formulas of Strata's own ops; and how epilogues read tensors.
#pragma once
#include "cuda/custom/elements.cuh"
#include "cuda/custom/gemm_kernel_params.h"
#include "device/functors/activations.h"

namespace strata::gemm {
namespace functions {

template <class T> __device__ __forceinline__ T relu(T x) { return fn::Relu<T>{}(x); }
template <class T> __device__ __forceinline__ T gelu(T x) { return fn::Gelu<T>{}(x); }
template <class T> __device__ __forceinline__ T gelu_tanh(T x) { return fn::GeluTanh<T>{}(x); }
template <class T> __device__ __forceinline__ T silu(T x) { return fn::Silu<T>{}(x); }
template <class T> __device__ __forceinline__ T sigmoid(T x) { return fn::Sigmoid<T>{}(x); }
template <class T> __device__ __forceinline__ T mish(T x) { return fn::Mish<T>{}(x); }
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
template <class Sum, class Stored>
__device__ __forceinline__ auto scalar(const KernelParams& p, int i, const BatchIndex& batch) {
  const Extra& x = p.extras[i];
  return element<Sum>(reinterpret_cast<const Stored*>(x.data), batch.offset(p, x.batch));
}

}  // namespace strata::gemm
