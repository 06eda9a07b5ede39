// Elements of 16 bits in kernels that are compiled at run time, without the toolkit's headers, which need not be
// installed. strata_load converts an element to the type to compute with, strata_store rounds to the nearest element.
#pragma once

struct strata_half {
  unsigned short bits;
};
struct strata_bfloat16 {
  unsigned short bits;
};

template <class T> __device__ __forceinline__ T strata_load(const T& v) { return v; }
__device__ __forceinline__ float strata_load(const strata_half& v) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(v.bits));
  return out;
}
__device__ __forceinline__ float strata_load(const strata_bfloat16& v) {
  return __uint_as_float(unsigned(v.bits) << 16);
}

template <class T, class V> __device__ __forceinline__ void strata_store(T& to, V v) { to = T(v); }
__device__ __forceinline__ void strata_store(strata_half& to, float v) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(v));
}
__device__ __forceinline__ void strata_store(strata_bfloat16& to, float v) {
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(v));
#else
  const unsigned bits = __float_as_uint(v);
  to.bits = v != v ? 0x7fff : (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
}
__device__ __forceinline__ void strata_store(strata_half& to, double v) { strata_store(to, float(v)); }
__device__ __forceinline__ void strata_store(strata_bfloat16& to, double v) { strata_store(to, float(v)); }
