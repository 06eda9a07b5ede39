// Vectors of eight elements, several per thread: all loads are issued before the first conversion waits for one.
#pragma once
#include "cuda/common/dtypes.cuh"

namespace strata::cuda {

// Supported element types. Common: the compute type T and, for float, the 16-bit ones. Narrow: only the 16-bit ones, in
// half the registers. Same: only T.
enum class Types { Any, Common, Narrow, Same };

// Element i of an array, in fewer instructions if the types are known.
template <class T, Types kTypes>
__device__ __forceinline__ const void* element_as(uint64_t data, int32_t type, int64_t i) {
  if constexpr (kTypes == Types::Narrow) return reinterpret_cast<const void*>(data + uint64_t(i) * 2);
  else if constexpr (kTypes == Types::Same) return reinterpret_cast<const void*>(data + uint64_t(i) * sizeof(T));
  else return element(data, type, i);
}

// Holds the raw bits for the common types; others as T.
template <class T, int kCount, Types kTypes = Types::Any> class Eights {
 public:
  // Vector k is loaded from at(k) if has(k); otherwise it is zero or, with kLowest, -infinity. Addresses are multiples
  // of 16, or of eight elements of one byte. A vector of type T has several parts of 16 bytes, `gap` bytes apart.
  template <bool kLowest = false, class At, class Has>
  __device__ __forceinline__ void load(int32_t type, At at, Has has, uint32_t gap = 16) {
    const uint4 none = kLowest ? lowest(type) : make_uint4(0, 0, 0, 0);
    if (narrow(type)) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        part_[k][0] = none;
        if (has(k)) part_[k][0] = *static_cast<const uint4*>(at(k));
      }
    } else if (kTypes != Types::Any || type == TagOf<T>::value) {
#pragma unroll
      for (int k = 0; k < kCount; ++k)
#pragma unroll
        for (int j = 0; j < kParts; ++j) {
          part_[k][j] = none;
          if (has(k)) part_[k][j] = *reinterpret_cast<const uint4*>(static_cast<const char*>(at(k)) + j * gap);
        }
    } else if (bytes(type)) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        part_[k][0] = make_uint4(0, 0, 0, 0);
        if (!has(k)) continue;
        const uint2 both = *static_cast<const uint2*>(at(k));
        part_[k][0].x = both.x;
        part_[k][0].y = both.y;
      }
    } else {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
#pragma unroll
        for (int j = 0; j < kParts; ++j) part_[k][j] = none;
        if (!has(k)) continue;
        T v[8];
        load_eight_any<T>(at(k), type, v);
#pragma unroll
        for (int j = 0; j < kParts; ++j) part_[k][j] = packed(v + j * (8 / kParts));
      }
    }
  }

  __device__ __forceinline__ void get(int32_t type, T (&v)[kCount][8]) const {
    each(type, [&](int k, int j, T x) { v[k][j] = x; });
  }
  // f(vector, element index, value): called in each branch, so that the values need no registers of their own.
  template <class F> __device__ __forceinline__ void each(int32_t type, F f) const {
    if constexpr (sizeof(T) == 4 && kTypes != Types::Same) {
      if (type == kBF16)
        return each_pair(
          f, [](uint32_t pair) { return __uint_as_float(pair << 16); },
          [](uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); });
      if (kTypes == Types::Narrow || type == kF16)
        return each_pair(
          f, [](uint32_t pair) { return half_to_float(uint16_t(pair)); },
          [](uint32_t pair) { return half_to_float(uint16_t(pair >> 16)); });
    }
    if constexpr (kTypes == Types::Any)
      if (bytes(type)) {
        const bool is_signed = type == kI8, is_bool = type == kBool;
#pragma unroll
        for (int k = 0; k < kCount; ++k)
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            const uint32_t v = word(k, j / 4) >> (j % 4 * 8) & 0xff;
            f(k, j, T(is_bool ? int(v != 0) : is_signed ? int(int8_t(v)) : int(v)));
          }
        return;
      }
    if constexpr (kTypes != Types::Narrow) {
#pragma unroll
      for (int k = 0; k < kCount; ++k)
#pragma unroll
        for (int j = 0; j < 8; ++j) f(k, j, one(k, j));
    }
  }

 private:
  static constexpr int kParts = kTypes == Types::Narrow ? 1 : int(sizeof(T)) / 2;

  static __device__ __forceinline__ bool narrow(int32_t type) {
    if (kTypes == Types::Narrow) return true;
    return sizeof(T) == 4 && kTypes != Types::Same && (type == kBF16 || type == kF16);
  }
  // Integers of one byte, eight of them in one access. Missing vectors of these are 0, also with kLowest.
  static __device__ __forceinline__ bool bytes(int32_t type) {
    return kTypes == Types::Any && (type == kBool || type == kU8 || type == kI8);
  }
  static __device__ __forceinline__ uint4 lowest(int32_t type) {
    if (sizeof(T) == 8) return make_uint4(0, 0xfff00000u, 0, 0xfff00000u);
    const uint32_t word = type == kBF16 ? 0xff80ff80u : type == kF16 ? 0xfc00fc00u : 0xff800000u;
    return make_uint4(word, word, word, word);
  }
  static __device__ __forceinline__ uint4 packed(const T* v) {
    if constexpr (sizeof(T) == 4) {
      return make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3]));
    } else {
      uint64_t w[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if constexpr (TagOf<T>::value == kF64) w[j] = uint64_t(__double_as_longlong(v[j]));
        else w[j] = uint64_t(v[j]);
      }
      return make_uint4(uint32_t(w[0]), uint32_t(w[0] >> 32), uint32_t(w[1]), uint32_t(w[1] >> 32));
    }
  }
  __device__ __forceinline__ uint32_t word(int k, int i) const {
    const uint4& p = part_[k][i / 4];
    return i % 4 == 0 ? p.x : i % 4 == 1 ? p.y : i % 4 == 2 ? p.z : p.w;
  }
  __device__ __forceinline__ T one(int k, int j) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(word(k, j));
    } else {
      const uint64_t bits = uint64_t(word(k, 2 * j)) | uint64_t(word(k, 2 * j + 1)) << 32;
      if constexpr (TagOf<T>::value == kF64) return __longlong_as_double(static_cast<long long>(bits));
      else return int64_t(bits);
    }
  }
  template <class F, class Low, class High> __device__ __forceinline__ void each_pair(F f, Low low, High high) const {
#pragma unroll
    for (int k = 0; k < kCount; ++k)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        f(k, 2 * j, low(word(k, j)));
        f(k, 2 * j + 1, high(word(k, j)));
      }
  }

  uint4 part_[kCount][kParts];
};

// Vectors of a thread that make 128 bytes: enough in flight to keep the memory busy.
template <class T, Types kTypes> constexpr int kInFlight = kTypes == Types::Narrow ? 8 : sizeof(T) == 4 ? 4 : 2;

// One vector.
template <class T> __device__ __forceinline__ void load_eight(const void* at, int32_t type, T (&v)[8]) {
  Eights<T, 1> one;
  one.load(
    type, [&](int) { return at; }, [](int) { return true; });
  one.get(type, reinterpret_cast<T(&)[1][8]>(v));
}

}  // namespace strata::cuda
