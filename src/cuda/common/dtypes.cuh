// Loads and stores that convert between an element type, given by a tag that is uniform over the launch, and a compute
// type.
//
// The compute types are float, double and int64_t. Common element types are converted inline; the others by a separate
// function, so that they cost each kernel only a call.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "device/complex.h"

namespace strata::cuda {

enum Type : int32_t {
#define STRATA_DTYPE(id, ...) k##id,
#include "tensor/dtypes.inc"
};
__device__ __forceinline__ constexpr bool is_float(int32_t type) { return type >= kF8E4M3 && type <= kF64; }

template <class T> struct TagOf;
template <> struct TagOf<float> { static constexpr int32_t value = kF32; };
template <> struct TagOf<double> { static constexpr int32_t value = kF64; };
template <> struct TagOf<int64_t> { static constexpr int32_t value = kI64; };

// Stand-ins for the host's element types: only their sizes count.
struct Float8E4M3 {
  uint8_t bits;
};
struct Float8E5M2 {
  uint8_t bits;
};
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct BoolByte {
  uint8_t bits;
};
// log2 of the element sizes: three bits for each type.
__host__ __device__ constexpr uint64_t log_sizes() {
  uint64_t all = 0;
  int at = 0;
#define STRATA_DTYPE(id, type, ...)        \
  all |= uint64_t(sizeof(type) == 16  ? 4  \
                  : sizeof(type) == 8 ? 3  \
                  : sizeof(type) == 4 ? 2  \
                  : sizeof(type) == 2 ? 1  \
                                      : 0) \
         << at;                            \
  at += 3;
#include "tensor/dtypes.inc"
  return all;
}
__device__ __forceinline__ int log_size(int32_t type) {
  constexpr uint64_t kLogSizes = log_sizes();
  return int(kLogSizes >> (type * 3)) & 7;
}

__device__ __forceinline__ float bf16_to_float(uint16_t bits) { return __uint_as_float(uint32_t(bits) << 16); }
__device__ __forceinline__ uint16_t float_to_bf16(float v) {
  const uint32_t u = __float_as_uint(v);
  return (u & 0x7fffffffu) > 0x7f800000u ? uint16_t(u >> 16 | 0x40u) : uint16_t((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
// Converts two at a time: one instruction from compute_80 on. In software it takes as long as the memory access:
// memory-bound kernels have a `ptx:` line for this.
__device__ __forceinline__ uint32_t pair_to_bf16(float low, float high) {
#if __CUDA_ARCH__ >= 800
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  return float_to_bf16(low) | uint32_t(float_to_bf16(high)) << 16;
#endif
}
__device__ __forceinline__ uint32_t pair_to_half(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}
__device__ __forceinline__ float half_to_float(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
__device__ __forceinline__ uint16_t float_to_half(float v) { return __half_as_ushort(__float2half_rn(v)); }

// The 8-bit floats, by bit patterns: e4m3 has no infinity (larger values become 448), e5m2 is the upper half of a half.
__device__ __forceinline__ float e4m3_to_float(uint8_t bits) {
  const uint32_t sign = uint32_t(bits & 0x80u) << 24, magnitude = bits & 0x7fu;
  if (magnitude == 0x7fu) return __uint_as_float(sign | 0x7fc00000u);
  // As a float whose exponent is 120 too small; the multiplication also handles subnormals.
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(magnitude << 20) * 0x1p120f));
}
__device__ __forceinline__ uint8_t float_to_e4m3(float v) {
  const uint32_t bits = __float_as_uint(v), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint8_t(sign | 0x7fu);
  uint32_t out;
  if (magnitude < 0x3c800000u) {  // below 2^-6: the last bit is 2^-9
    out = uint32_t(__float2int_rn(__uint_as_float(magnitude) * 512.f));
  } else {
    out = (magnitude + 0x7ffffu + (magnitude >> 20 & 1u) - (120u << 23)) >> 20;
    if (out > 0x7eu) out = 0x7eu;
  }
  return uint8_t(sign | out);
}
__device__ __forceinline__ float e5m2_to_float(uint8_t bits) { return half_to_float(uint16_t(bits) << 8); }
__device__ __forceinline__ uint8_t float_to_e5m2(float v) {
  const uint32_t bits = __float_as_uint(v), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint8_t(sign | 0x7fu);
  uint32_t out;
  if (magnitude < 0x38800000u) {  // below 2^-14: the last bit is 2^-16
    out = uint32_t(__float2int_rn(__uint_as_float(magnitude) * 65536.f));
  } else {
    out = (magnitude + 0xfffffu + (magnitude >> 21 & 1u) - (112u << 23)) >> 21;
    if (out > 0x7bu) out = 0x7cu;
  }
  return uint8_t(sign | out);
}

// Converts a float to an integer through int64_t, as on the host: narrow types take the low bits, and values that do
// not fit int64_t become its minimum.
template <class T> __device__ __forceinline__ int64_t whole(T v) {
  if constexpr (TagOf<T>::value == kI64) return v;
  else return v >= T(-0x1p63) && v < T(0x1p63) ? int64_t(v) : int64_t(0x8000000000000000ull);
}
template <class T> __device__ __forceinline__ uint64_t unsigned_whole(T v) {
  if constexpr (TagOf<T>::value != kI64)
    if (v >= T(0x1p63)) return uint64_t(v);
  return uint64_t(whole(v));
}
template <class T> __device__ T load_any(const void* at, int32_t type) {
  switch (type) {
    case kBool: return T(*static_cast<const uint8_t*>(at) != 0);
    case kU8: return T(*static_cast<const uint8_t*>(at));
    case kI8: return T(*static_cast<const int8_t*>(at));
    case kI16: return T(*static_cast<const int16_t*>(at));
    case kI32: return T(*static_cast<const int32_t*>(at));
    case kI64: return T(*static_cast<const int64_t*>(at));
    case kU16: return T(*static_cast<const uint16_t*>(at));
    case kU32: return T(*static_cast<const uint32_t*>(at));
    case kU64: return T(*static_cast<const uint64_t*>(at));
    case kF8E4M3: return T(e4m3_to_float(*static_cast<const uint8_t*>(at)));
    case kF8E5M2: return T(e5m2_to_float(*static_cast<const uint8_t*>(at)));
    case kF16: return T(half_to_float(*static_cast<const uint16_t*>(at)));
    case kBF16: return T(bf16_to_float(*static_cast<const uint16_t*>(at)));
    case kF32: return T(*static_cast<const float*>(at));
    default: return T(*static_cast<const double*>(at));
  }
}
template <class T> __device__ void store_any(void* at, int32_t type, T v) {
  switch (type) {
    case kBool: *static_cast<uint8_t*>(at) = v != T(0); return;
    case kU8: *static_cast<uint8_t*>(at) = uint8_t(whole(v)); return;
    case kI8: *static_cast<int8_t*>(at) = int8_t(whole(v)); return;
    case kI16: *static_cast<int16_t*>(at) = int16_t(whole(v)); return;
    case kI32: *static_cast<int32_t*>(at) = int32_t(whole(v)); return;
    case kI64: *static_cast<int64_t*>(at) = whole(v); return;
    case kU16: *static_cast<uint16_t*>(at) = uint16_t(whole(v)); return;
    case kU32: *static_cast<uint32_t*>(at) = uint32_t(whole(v)); return;
    case kU64: *static_cast<uint64_t*>(at) = unsigned_whole(v); return;
    case kF8E4M3: *static_cast<uint8_t*>(at) = float_to_e4m3(float(v)); return;
    case kF8E5M2: *static_cast<uint8_t*>(at) = float_to_e5m2(float(v)); return;
    case kF16: *static_cast<uint16_t*>(at) = float_to_half(float(v)); return;
    case kBF16: *static_cast<uint16_t*>(at) = float_to_bf16(float(v)); return;
    case kF32: *static_cast<float*>(at) = float(v); return;
    default: *static_cast<double*>(at) = double(v); return;
  }
}
// One instance of each per file.
static __device__ __noinline__ float load_float(const void* at, int32_t type) { return load_any<float>(at, type); }
static __device__ __noinline__ double load_double(const void* at, int32_t type) { return load_any<double>(at, type); }
static __device__ __noinline__ int64_t load_int(const void* at, int32_t type) { return load_any<int64_t>(at, type); }
static __device__ __noinline__ void store_float(void* at, int32_t type, float v) { store_any(at, type, v); }
static __device__ __noinline__ void store_double(void* at, int32_t type, double v) { store_any(at, type, v); }
static __device__ __noinline__ void store_int(void* at, int32_t type, int64_t v) { store_any(at, type, v); }

template <class T> __device__ __forceinline__ T load(const void* at, int32_t type) {
  if (type == TagOf<T>::value) return *static_cast<const T*>(at);
  if constexpr (sizeof(T) == 4) return load_float(at, type);
  else if constexpr (TagOf<T>::value == kF64) return load_double(at, type);
  else return load_int(at, type);
}
template <class T> __device__ __forceinline__ void store(void* at, int32_t type, T v) {
  if (type == TagOf<T>::value) *static_cast<T*>(at) = v;
  else if constexpr (sizeof(T) == 4) store_float(at, type, v);
  else if constexpr (TagOf<T>::value == kF64) store_double(at, type, v);
  else store_int(at, type, v);
}
// Element i of an array whose type is given by a tag.
__device__ __forceinline__ const void* element(uint64_t data, int32_t type, int64_t i) {
  return reinterpret_cast<const void*>(data + (uint64_t(i) << log_size(type)));
}

// 16 / sizeof(T) consecutive elements, aligned to that many times their size. Returns false, without doing anything,
// for types other than the compute type and, for float, the 16-bit types.
template <class T> __device__ __forceinline__ bool load_common(const void* at, int32_t type, T (&v)[16 / sizeof(T)]) {
  constexpr int kItems = 16 / sizeof(T);
  if (type == TagOf<T>::value) {
    struct alignas(16) Vector {
      T v[kItems];
    };
    const Vector x = *static_cast<const Vector*>(at);
#pragma unroll
    for (int j = 0; j < kItems; ++j) v[j] = x.v[j];
    return true;
  }
  if constexpr (sizeof(T) == 4) {
    if (type == kBF16 || type == kF16) {
      const uint2 x = *static_cast<const uint2*>(at);
      const uint16_t bits[4] = {uint16_t(x.x), uint16_t(x.x >> 16), uint16_t(x.y), uint16_t(x.y >> 16)};
#pragma unroll
      for (int j = 0; j < 4; ++j) v[j] = type == kBF16 ? bf16_to_float(bits[j]) : half_to_float(bits[j]);
      return true;
    }
  }
  return false;
}
template <class T> __device__ __forceinline__ bool store_common(void* at, int32_t type, const T (&v)[16 / sizeof(T)]) {
  constexpr int kItems = 16 / sizeof(T);
  if (type == TagOf<T>::value) {
    struct alignas(16) Vector {
      T v[kItems];
    };
    Vector x;
#pragma unroll
    for (int j = 0; j < kItems; ++j) x.v[j] = v[j];
    *static_cast<Vector*>(at) = x;
    return true;
  }
  if constexpr (sizeof(T) == 4) {
    if (type == kBF16 || type == kF16) {
      *static_cast<uint2*>(at) = type == kBF16 ? make_uint2(pair_to_bf16(v[0], v[1]), pair_to_bf16(v[2], v[3]))
                                               : make_uint2(pair_to_half(v[0], v[1]), pair_to_half(v[2], v[3]));
      return true;
    }
  }
  return false;
}
// The same for all types, one element at a time if necessary.
template <class T> __device__ __forceinline__ void load_vector(const void* at, int32_t type, T (&v)[16 / sizeof(T)]) {
  if (load_common<T>(at, type, v)) return;
#pragma unroll
  for (int j = 0; j < int(16 / sizeof(T)); ++j) v[j] = load<T>(element(reinterpret_cast<uint64_t>(at), type, j), type);
}
template <class T> __device__ __forceinline__ void store_vector(void* at, int32_t type, const T (&v)[16 / sizeof(T)]) {
  if (store_common<T>(at, type, v)) return;
#pragma unroll
  for (int j = 0; j < int(16 / sizeof(T)); ++j)
    store<T>(const_cast<void*>(element(reinterpret_cast<uint64_t>(at), type, j)), type, v[j]);
}

// Eight elements of an uncommon type, through local memory: rare, so not inlined.
template <class T> static __device__ __noinline__ void load_eight_any(const void* at, int32_t type, T* v) {
#pragma unroll 1
  for (int j = 0; j < 8; ++j) v[j] = load_any<T>(element(reinterpret_cast<uint64_t>(at), type, j), type);
}
template <class T> static __device__ __noinline__ void store_eight_any(void* at, int32_t type, const T* v) {
#pragma unroll 1
  for (int j = 0; j < 8; ++j)
    store_any<T>(const_cast<void*>(element(reinterpret_cast<uint64_t>(at), type, j)), type, v[j]);
}

// Stores eight consecutive elements: 16-byte accesses for types of two bytes or more. Aligned to 16 bytes, or to eight
// elements of one byte. See eights.cuh for loads, and for kAnyType and gap.
template <class T, bool kAnyType = true>
__device__ __forceinline__ void store_eight(void* at, int32_t type, const T (&v)[8], uint32_t gap = 16) {
  if constexpr (sizeof(T) == 4) {
    if (type == kBF16 || type == kF16) {
      uint32_t word[4];
      if (type == kBF16) {  // one branch for both: converting to both types would cost more than the memory access
#pragma unroll
        for (int j = 0; j < 4; ++j) word[j] = pair_to_bf16(v[2 * j], v[2 * j + 1]);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) word[j] = pair_to_half(v[2 * j], v[2 * j + 1]);
      }
      *static_cast<uint4*>(at) = make_uint4(word[0], word[1], word[2], word[3]);
      return;
    }
  }
  if (!kAnyType || type == TagOf<T>::value) {
    constexpr int kItems = 16 / sizeof(T);
#pragma unroll
    for (int k = 0; k < 8 / kItems; ++k) {
      T part[kItems];
#pragma unroll
      for (int j = 0; j < kItems; ++j) part[j] = v[k * kItems + j];
      store_common<T>(static_cast<char*>(at) + k * gap, TagOf<T>::value, part);
    }
    return;
  }
  if constexpr (kAnyType) {
    T copy[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) copy[j] = v[j];
    store_eight_any<T>(at, type, copy);
  }
}

}  // namespace strata::cuda
