// The pointwise kernels of one functor header: out[i] = f(a[i], b[i], …) for operands of any dtype and layout.
//
// Bound by memory: each element is read and written once. A thread computes 16 bytes of the compute type: one vector access per operand
// where all lie densely, four addresses from fast divisions where not. A file of this folder names the list of its functors
// and includes this. Each functor is compiled for float, double and int64_t; the element types are tags, uniform over the
// launch, so there is one kernel for all dtypes and layouts.
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/fault.cuh"
#include "cuda/kernels/index.cuh"
#include "cuda/kernels/pointwise_params.h"

namespace strata::cuda {

template <class F, class T, int kItems>
__device__ __forceinline__ void compute(const F& f, const T (&in)[F::kInputs][kItems], T (&out)[kItems]) {
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    if constexpr (F::kInputs == 1) out[j] = f(in[0][j]);
    else if constexpr (F::kInputs == 2) out[j] = f(in[0][j], in[1][j]);
    else if constexpr (F::kInputs == 3) out[j] = f(in[0][j], in[1][j], in[2][j]);
    else out[j] = f(in[0][j], in[1][j], in[2][j], in[3][j]);
  }
}

template <class T> __device__ __forceinline__ T number_of(uint64_t bits) {
  if constexpr (sizeof(T) == 4) return __uint_as_float(uint32_t(bits));
  else if constexpr (TagOf<T>::value == kF64) return __longlong_as_double(static_cast<long long>(bits));
  else return int64_t(bits);
}

template <class F, class T> __device__ __forceinline__ void pointwise(const PointwiseParams& p) {
  constexpr int kItems = 16 / sizeof(T), kInputs = F::kInputs;
  const uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) * kItems;
  if (first >= p.count) return;
  F f;
  if constexpr (sizeof(F) >= sizeof(T)) {  // an empty functor has size 1
    T* members = reinterpret_cast<T*>(&f);
#pragma unroll
    for (int k = 0; k < int(sizeof(F) / sizeof(T)); ++k) members[k] = number_of<T>(p.members[k]);
  }
  T in[kInputs][kItems], out[kItems];
  const bool whole = p.dense && first + kItems <= p.count;
  uint32_t offset[kInputs + 1][kItems];
  if (whole) {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const PointwiseParams::View& v = p.view[k + 1];
      if (v.data) {
        load_vector<T>(element(v.data, v.type, first), v.type, in[k]);
      } else {
#pragma unroll
        for (int j = 0; j < kItems; ++j) in[k][j] = number_of<T>(v.number);
      }
    }
  } else {
    uint32_t rest[kItems];
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      rest[j] = min(first + j, p.count - 1);  // past the end the last element again, which is not stored
#pragma unroll
      for (int k = 0; k <= kInputs; ++k) offset[k][j] = 0;
    }
#pragma unroll 1
    for (int d = 0; d < p.ndim; ++d) {
      const FastDivisor size = p.size[d];
#pragma unroll
      for (int j = 0; j < kItems; ++j) {
        const uint32_t index = split_off(rest[j], size);
#pragma unroll
        for (int k = 0; k <= kInputs; ++k) offset[k][j] += index * uint32_t(p.step[d][k]);
      }
    }
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const PointwiseParams::View& v = p.view[k + 1];
#pragma unroll
      for (int j = 0; j < kItems; ++j)
        in[k][j] =
          v.data ? load<T>(element(v.data, v.type, int32_t(offset[k + 1][j])), v.type) : number_of<T>(v.number);
    }
  }
  if constexpr (TagOf<T>::value == kI64) {
    if constexpr (requires { F::kNonzero; }) {
#pragma unroll
      for (int j = 0; j < kItems; ++j)
        if (in[F::kNonzero][j] == 0) report(p.faults, FaultCode::Division, 0, 0);
    }
  }
  compute(f, in, out);
  const PointwiseParams::View& to = p.view[0];
  if (whole) {
    store_vector<T>(const_cast<void*>(element(to.data, to.type, first)), to.type, out);
  } else {
#pragma unroll
    for (int j = 0; j < kItems; ++j)
      if (first + j < p.count)
        store<T>(const_cast<void*>(element(to.data, to.type, int32_t(offset[0][j]))), to.type, out[j]);
  }
}

template <template <class> class F, class T> __device__ __forceinline__ void pointwise_of(const PointwiseParams& p) {
  constexpr bool kInteger = TagOf<T>::value == kI64;
  if constexpr (!(kInteger ? __is_base_of(FloatOnly, F<T>) : __is_base_of(IntOnly, F<T>))) pointwise<F<T>, T>(p);
}

#define STRATA_FUNCTOR(F)                                                                                          \
  extern "C" __global__ void __launch_bounds__(256) F##_f32(PointwiseParams p) { pointwise_of<fn::F, float>(p); }  \
  extern "C" __global__ void __launch_bounds__(256) F##_f64(PointwiseParams p) { pointwise_of<fn::F, double>(p); } \
  extern "C" __global__ void __launch_bounds__(256) F##_i64(PointwiseParams p) { pointwise_of<fn::F, int64_t>(p); }
#include STRATA_FUNCTOR_LIST
#undef STRATA_FUNCTOR

}  // namespace strata::cuda
