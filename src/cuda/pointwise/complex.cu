// Pointwise kernels of device/functors/complex.h: out[i] = f(a[i], b[i], …) for operands of any dtype and layout.
//
// A thread computes one element at a time. Bound by memory for arithmetic (8 or 16 bytes per access), by arithmetic in
// double for elementary functions. The element types are tags, uniform over the launch; a real operand has no imaginary
// part, and a real or bool result takes the real part.
#include "device/functors/complex.h"

#include "cuda/common/dtypes.cuh"
#include "cuda/common/index.cuh"
#include "cuda/pointwise/complex_params.h"

#define STRATA_COMPLEX_LIST "functors/complex.inc"

namespace strata::cuda {

template <class T> __device__ __forceinline__ Complex<T> load_complex(const void* at, int32_t type) {
  if (type == kC64) {
    const auto* z = static_cast<const Complex<float>*>(at);
    return {T(z->re), T(z->im)};
  }
  if (type == kC128) {
    const auto* z = static_cast<const Complex<double>*>(at);
    return {T(z->re), T(z->im)};
  }
  return {load<T>(at, type), T(0)};
}
template <class T> __device__ __forceinline__ void store_complex(void* at, int32_t type, Complex<T> v) {
  if (type == kC64) *static_cast<Complex<float>*>(at) = {float(v.re), float(v.im)};
  else if (type == kC128) *static_cast<Complex<double>*>(at) = {double(v.re), double(v.im)};
  else store<T>(at, type, v.re);
}

// Not inlined: most formulas are long, and a call costs little beside them.
template <class F, class... V> __device__ __noinline__ auto called(const F& f, V... in) { return f(in...); }

template <class F, class T> __device__ __forceinline__ void complex_pointwise(const ComplexParams& p) {
  constexpr int kInputs = F::kInputs;
  F f;
  if constexpr (sizeof(F) >= sizeof(Complex<T>)) {  // an empty functor has size 1
    auto* members = reinterpret_cast<Complex<T>*>(&f);
#pragma unroll
    for (int k = 0; k < int(sizeof(F) / sizeof(Complex<T>)); ++k) members[k] = {T(p.members[k][0]), T(p.members[k][1])};
  }
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += gridDim.x * blockDim.x) {
    uint32_t rest = i, offset[kInputs + 1] = {};
#pragma unroll 1
    for (int d = 0; d < p.ndim; ++d) {
      const uint32_t index = split_off(rest, p.size[d]);
#pragma unroll
      for (int k = 0; k <= kInputs; ++k) offset[k] += index * uint32_t(p.step[d][k]);
    }
    Complex<T> in[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const ComplexParams::View& v = p.view[k + 1];
      in[k] = v.data ? load_complex<T>(element(v.data, v.type, int32_t(offset[k + 1])), v.type)
                     : Complex<T>{T(v.number[0]), T(v.number[1])};
    }
    Complex<T> out;
    if constexpr (kInputs == 1) out = called(f, in[0]);
    else if constexpr (kInputs == 2) out = called(f, in[0], in[1]);
    else out = called(f, in[0], in[1], in[2]);
    store_complex<T>(const_cast<void*>(element(p.view[0].data, p.view[0].type, int32_t(offset[0]))), p.view[0].type,
                     out);
  }
}

#define STRATA_FUNCTOR(F)                                                       \
  extern "C" __global__ void __launch_bounds__(256) F##_c64(ComplexParams p) {  \
    complex_pointwise<fn::F<Complex<float>>, float>(p);                         \
  }                                                                             \
  extern "C" __global__ void __launch_bounds__(256) F##_c128(ComplexParams p) { \
    complex_pointwise<fn::F<Complex<double>>, double>(p);                       \
  }
#include STRATA_COMPLEX_LIST
#undef STRATA_FUNCTOR

}  // namespace strata::cuda
