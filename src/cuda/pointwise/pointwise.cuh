// The pointwise kernels of one functor header: out[i] = f(a[i], b[i], …) for operands of any dtype and layout.
//
// Bound by memory: each element is read and written once. A thread computes eight elements: with 16-byte accesses if
// all operands are dense or have rows of whole vectors, otherwise with addresses from fast divisions. A file of this folder names the list of its
// functors and includes this. Each functor is compiled for float, double and int64_t, and for uint64_t if it has
// kUnsigned; the element types are tags, uniform over the launch, so one kernel serves all dtypes and layouts.
#include "cuda/common/eights.cuh"
#include "cuda/common/fault.cuh"
#include "cuda/common/index.cuh"
#include "cuda/pointwise/pointwise_params.h"

namespace strata::cuda {

constexpr uint32_t kThreads = 256;

// A long formula is compiled once per kernel and called: a kernel would hold twelve copies, which take minutes to compile.
template <class F, class... T> __device__ __noinline__ auto called(const F& f, T... in) { return f(in...); }
template <class F, class... T> __device__ __forceinline__ auto apply(const F& f, T... in) {
  if constexpr (requires { F::kLong; }) return called(f, in...);
  else return f(in...);
}
// N is the type of the functor: T, or uint64_t for the bits in int64_t.
template <class N, class F, class T, int kItems>
__device__ __forceinline__ void compute(const F& f, const T (&in)[F::kInputs][kItems], T (&out)[kItems]) {
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    if constexpr (F::kInputs == 1) out[j] = T(apply(f, N(in[0][j])));
    else if constexpr (F::kInputs == 2) out[j] = T(apply(f, N(in[0][j]), N(in[1][j])));
    else if constexpr (F::kInputs == 3) out[j] = T(apply(f, N(in[0][j]), N(in[1][j]), N(in[2][j])));
    else out[j] = T(apply(f, N(in[0][j]), N(in[1][j]), N(in[2][j]), N(in[3][j])));
  }
}

template <class T> __device__ __forceinline__ T number_of(uint64_t bits) {
  if constexpr (sizeof(T) == 4) return __uint_as_float(uint32_t(bits));
  else if constexpr (TagOf<T>::value == kF64) return __longlong_as_double(static_cast<long long>(bits));
  else return int64_t(bits);
}

template <class F, class T, int kItems>
__device__ __forceinline__ void check_divisors(const PointwiseParams& p, const T (&in)[F::kInputs][kItems]) {
  if constexpr (TagOf<T>::value == kI64) {
    if constexpr (requires { F::kNonzero; }) {
#pragma unroll
      for (int j = 0; j < kItems; ++j)
        if (in[F::kNonzero][j] == 0) report(p.faults, FaultCode::Division, 0, 0);
    }
  }
}

// kPart elements at first, first + step, ...: each address from fast divisions.
template <class F, class T, class N>
__device__ __forceinline__ void strided(const F& f, const PointwiseParams& p, uint32_t first, uint32_t step) {
  constexpr int kPart = 4, kInputs = F::kInputs;
  T in[kInputs][kPart], out[kPart];
  uint32_t offset[kInputs + 1][kPart], rest[kPart];
#pragma unroll
  for (int j = 0; j < kPart; ++j) {
    rest[j] = min(first + j * step, p.count - 1);  // past the end, the last element again, which is not stored
#pragma unroll
    for (int k = 0; k <= kInputs; ++k) offset[k][j] = 0;
  }
#pragma unroll 1
  for (int d = 0; d < p.ndim; ++d) {
    const FastDivisor size = p.size[d];
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const uint32_t index = split_off(rest[j], size);
#pragma unroll
      for (int k = 0; k <= kInputs; ++k) offset[k][j] += index * uint32_t(p.step[d][k]);
    }
  }
#pragma unroll
  for (int k = 0; k < kInputs; ++k) {
    const PointwiseParams::View& v = p.view[k + 1];
#pragma unroll
    for (int j = 0; j < kPart; ++j)
      in[k][j] = v.data ? load<T>(element(v.data, v.type, int32_t(offset[k + 1][j])), v.type) : number_of<T>(v.number);
  }
  check_divisors<F>(p, in);
  compute<N>(f, in, out);
  const PointwiseParams::View& to = p.view[0];
#pragma unroll
  for (int j = 0; j < kPart; ++j)
    if (first + j * step < p.count)
      store<T>(const_cast<void*>(element(to.data, to.type, int32_t(offset[0][j]))), to.type, out[j]);
}

template <class F, class T, class N = T> __device__ __forceinline__ void pointwise(const PointwiseParams& p) {
  constexpr int kItems = 8, kInputs = F::kInputs;
  F f;
  if constexpr (sizeof(F) >= sizeof(T)) {  // an empty functor has size 1
    T* members = reinterpret_cast<T*>(&f);
#pragma unroll
    for (int k = 0; k < int(sizeof(F) / sizeof(T)); ++k) members[k] = number_of<T>(p.members[k]);
  }
  const uint32_t block = blockIdx.x * (kThreads * kItems);
  if ((!p.dense && !p.rows) || p.count - block < kThreads * kItems) {  // uniform over the block
#pragma unroll 1
    for (uint32_t first = block + threadIdx.x; first < min(p.count, block + kThreads * kItems); first += 4 * kThreads)
      strided<F, T, N>(f, p, first, kThreads);
    return;
  }
  const uint32_t first = block + threadIdx.x * p.each;
  uint32_t offset[kInputs + 1];
  if (p.dense) {
#pragma unroll
    for (int k = 0; k <= kInputs; ++k) offset[k] = first;
  } else {
    uint32_t rest = first / kItems;
    const uint32_t inner = split_off(rest, p.eights) * kItems;
#pragma unroll
    for (int k = 0; k <= kInputs; ++k) offset[k] = inner;
#pragma unroll 1
    for (int d = 1; d < p.ndim; ++d) {
      const uint32_t index = split_off(rest, p.size[d]);
#pragma unroll
      for (int k = 0; k <= kInputs; ++k) offset[k] += index * uint32_t(p.step[d][k]);
    }
  }
  const auto place = [&](int k) {
    const PointwiseParams::View& v = p.view[k];
    return reinterpret_cast<const void*>(v.data + (int64_t(int32_t(offset[k])) << v.log_size));
  };
  Eights<T, 1> read[kInputs];
#pragma unroll
  for (int k = 0; k < kInputs; ++k) {
    const PointwiseParams::View& v = p.view[k + 1];
    read[k].load(
      v.type, [&](int) { return place(k + 1); }, [&](int) { return v.data != 0; }, p.gap);
  }
  T in[kInputs][kItems], out[kItems];
#pragma unroll
  for (int k = 0; k < kInputs; ++k) {
    const PointwiseParams::View& v = p.view[k + 1];
    if (v.data) {
      read[k].get(v.type, reinterpret_cast<T(&)[1][kItems]>(in[k]));
    } else {
#pragma unroll
      for (int j = 0; j < kItems; ++j) in[k][j] = number_of<T>(v.number);
    }
  }
  check_divisors<F>(p, in);
  compute<N>(f, in, out);
  store_eight<T>(const_cast<void*>(place(0)), p.view[0].type, out, p.gap);
}

template <template <class> class F, class T> __device__ __forceinline__ void pointwise_of(const PointwiseParams& p) {
  constexpr bool kInteger = TagOf<T>::value == kI64;
  if constexpr (!(kInteger ? __is_base_of(FloatOnly, F<T>) : __is_base_of(IntOnly, F<T>))) pointwise<F<T>, T>(p);
}
template <template <class> class F> __device__ __forceinline__ void pointwise_of_uint64(const PointwiseParams& p) {
  if constexpr (requires { F<float>::kUnsigned; }) pointwise<F<uint64_t>, int64_t, uint64_t>(p);
}

#define STRATA_FUNCTOR(F)                                                                                           \
  extern "C" __global__ void __launch_bounds__(256) F##_f32(PointwiseParams p) { pointwise_of<fn::F, float>(p); }   \
  extern "C" __global__ void __launch_bounds__(256) F##_f64(PointwiseParams p) { pointwise_of<fn::F, double>(p); }  \
  extern "C" __global__ void __launch_bounds__(256) F##_i64(PointwiseParams p) { pointwise_of<fn::F, int64_t>(p); } \
  extern "C" __global__ void __launch_bounds__(256) F##_u64(PointwiseParams p) { pointwise_of_uint64<fn::F>(p); }
#include STRATA_FUNCTOR_LIST
#undef STRATA_FUNCTOR

}  // namespace strata::cuda
