// The frame of fused pointwise kernels (cuda/pointwise/fused_source.cpp): parameters, and loads and stores of elements whose
// types are known when the kernel is compiled. Compiled by NVRTC, so it includes nothing of the toolkit.
//
// Bound by memory: each element of a tensor is read once and each stored result written once. A thread computes kVectors
// vectors of kItems elements, whose loads are all in flight before the first formula waits for one.
#pragma once
#include "cuda/common/index.cuh"
#include "cuda/custom/elements.cuh"

namespace strata::fused {

constexpr unsigned kThreads = 256;

// The host writes the same bytes (fused.cpp): 8-byte members first.
template <class T, int kTensors, int kResults, int kNumbers, int kStrided, int kDims> struct Params {
  static __device__ constexpr int most(int n) { return n ? n : 1; }
  static constexpr int kStridedTensors = kStrided, kDimensions = kDims;
  const void* tensor[most(kTensors)];
  void* result[most(kResults)];
  T number[sizeof(T) == 4 ? (most(kNumbers) + 1) / 2 * 2 : most(kNumbers)];
  unsigned count;        // elements
  unsigned vectors;      // whether elements may be computed in whole vectors
  unsigned vector_rows;  // a bit for each strided tensor whose vectors are contiguous
  unsigned unused;
  cuda::FastDivisor size[most(kDims)];  // the fastest dimension first
  int step[most(kStrided)][most(kDims)];
};

// --- elements --------------------------------------------------------------------------------------------------------------
struct Bool {
  unsigned char bits;
};
struct Vector16 {
  unsigned x, y, z, w;
};

template <class T, class S> __device__ __forceinline__ T value_of(const S& s) { return T(strata_load(s)); }
template <class T> __device__ __forceinline__ T value_of(const Bool& s) { return T(s.bits != 0); }
template <class T> __device__ __forceinline__ void set(Bool& to, T v) { to.bits = v != T(0); }
template <class S, class T> __device__ __forceinline__ void set(S& to, T v) { strata_store(to, v); }

// kItems consecutive elements of type S, aligned to their size or to 16 bytes, as they are in memory.
template <class S, int kItems> struct Elements {
  static constexpr int kBytes = kItems * int(sizeof(S));
  alignas(kBytes < 16 ? kBytes : 16) S item[kItems];
};
template <class S, int kItems>
__device__ __forceinline__ Elements<S, kItems> load_vector(const void* data, unsigned long long at) {
  return *reinterpret_cast<const Elements<S, kItems>*>(static_cast<const S*>(data) + at);
}
template <class S, int kItems>
__device__ __forceinline__ void store_vector(void* data, unsigned long long at, const Elements<S, kItems>& v) {
  *reinterpret_cast<Elements<S, kItems>*>(static_cast<S*>(data) + at) = v;
}
// A vector of a strided tensor: contiguous, one element for all, or single elements.
template <class S, int kItems>
__device__ __forceinline__ Elements<S, kItems> load_strided(const void* data, int at, int step, bool contiguous) {
  if (contiguous) return load_vector<S, kItems>(static_cast<const S*>(data) + at, 0);
  Elements<S, kItems> v;
  const S* from = static_cast<const S*>(data) + at;
  const S first = *from;
#pragma unroll
  for (int k = 0; k < kItems; ++k) v.item[k] = first;
  if (step) {
#pragma unroll
    for (int k = 1; k < kItems; ++k) v.item[k] = from[long(k) * step];
  }
  return v;
}

// Two elements of 16 bits in a word: both conversions are one instruction.
template <class S> constexpr bool kPacks = false;
#if __CUDA_ARCH__ >= 800
template <> constexpr bool kPacks<strata_bfloat16> = true;
template <> constexpr bool kPacks<strata_half> = true;
__device__ __forceinline__ unsigned pack(const strata_bfloat16*, float low, float high) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ __forceinline__ unsigned pack(const strata_half*, float low, float high) {
  unsigned word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ __forceinline__ void unpack(const strata_bfloat16*, unsigned word, float (&v)[2]) {
  v[0] = __uint_as_float(word << 16);
  v[1] = __uint_as_float(word & 0xffff0000u);
}
__device__ __forceinline__ void unpack(const strata_half*, unsigned word, float (&v)[2]) {
  v[0] = strata_load(strata_half{(unsigned short)word});
  v[1] = strata_load(strata_half{(unsigned short)(word >> 16)});
}
#endif
template <class T, class S> constexpr bool kInWords = false;
template <class S> constexpr bool kInWords<float, S> = kPacks<S>;

// Elements j and j + 1 of a vector.
template <class T, class S, int kItems>
__device__ __forceinline__ void get_two(const Elements<S, kItems>& from, int j, T (&v)[2]) {
  if constexpr (kInWords<T, S>) {
    unpack((const S*)nullptr, reinterpret_cast<const unsigned*>(from.item)[j / 2], v);
  } else {
    v[0] = value_of<T>(from.item[j]);
    v[1] = value_of<T>(from.item[j + 1]);
  }
}
template <class T, class S, int kItems>
__device__ __forceinline__ void set_two(Elements<S, kItems>& to, int j, const T (&v)[2]) {
  if constexpr (kInWords<T, S>) {
    reinterpret_cast<unsigned*>(to.item)[j / 2] = pack((const S*)nullptr, v[0], v[1]);
  } else {
    set(to.item[j], v[0]);
    set(to.item[j + 1], v[1]);
  }
}

// --- formulas --------------------------------------------------------------------------------------------------------------
// A functor with its members.
template <class F, class T> __device__ __forceinline__ F functor(const T* members) {
  F f;
  T* to = reinterpret_cast<T*>(&f);
#pragma unroll
  for (int k = 0; k < int(sizeof(F) / sizeof(T)); ++k) to[k] = members[k];
  return f;
}
// A long formula is compiled once per kernel and called, as in the kernels of single ops.
template <class F, class... T> __device__ __noinline__ auto called(const F& f, T... in) { return f(in...); }
template <class F, class... T> __device__ __forceinline__ auto apply(const F& f, T... in) {
  if constexpr (requires { F::kLong; }) return called(f, in...);
  else return f(in...);
}
// Rounds to an element type and back, as if the value had been stored.
template <class S, class T, int kWidth> __device__ __forceinline__ void round_to(T (&v)[kWidth]) {
  if constexpr (kWidth == 2 && kInWords<T, S>) {
    unpack((const S*)nullptr, pack((const S*)nullptr, v[0], v[1]), v);
  } else {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      S stored;
      set(stored, v[k]);
      v[k] = value_of<T>(stored);
    }
  }
}

// --- places ----------------------------------------------------------------------------------------------------------------
// The offset of an element in each strided tensor.
template <class P> struct Offsets {
  int of[P::kStridedTensors ? P::kStridedTensors : 1];
  __device__ __forceinline__ Offsets(const P& p, unsigned element) {
#pragma unroll
    for (int k = 0; k < P::kStridedTensors; ++k) of[k] = 0;
    if constexpr (P::kStridedTensors > 0) {
#pragma unroll
      for (int d = 0; d < P::kDimensions; ++d) {
        const int index = int(cuda::split_off(element, p.size[d]));
#pragma unroll
        for (int k = 0; k < P::kStridedTensors; ++k) of[k] += index * p.step[k][d];
      }
    }
  }
};

}  // namespace strata::fused
