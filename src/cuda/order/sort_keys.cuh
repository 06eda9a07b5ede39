// Elements as unsigned keys in sort order: NaN after all numbers, all NaN equal, -0 equal to 0.
#pragma once
#include "cuda/common/dtypes.cuh"

namespace strata::cuda {

// Turns the bits of elements of one type into keys, without branches; Bits has the elements' size.
template <class Bits> struct KeyOrder {
  static constexpr int kWidth = sizeof(Bits) * 8;
  static constexpr Bits kAll = Bits(~Bits(0)), kTop = Bits(Bits(1) << (kWidth - 1)), kRest = Bits(kAll ^ kTop);
  Bits negative;      // bits of negative numbers to invert, besides the sign
  Bits sign;          // to invert in all numbers
  Bits least, range;  // keys outside of [least, least + range] are those of NaN
  Bits minus_zero;    // becomes the key of 0

  __device__ explicit KeyOrder(int32_t type) {
    const bool floats = is_float(type);
    const bool is_signed = floats || type == kI8 || type == kI16 || type == kI32 || type == kI64;
    negative = floats ? kRest : Bits(0);
    sign = is_signed ? kTop : Bits(0);
    const Bits infinity = infinity_of(type);
    least = floats ? Bits(kRest - infinity) : Bits(0);
    range = floats ? Bits(Bits(kTop + infinity) - least) : type == kBool ? Bits(0) : kAll;
    minus_zero = floats ? kRest : kTop;
  }
  __device__ __forceinline__ Bits operator()(Bits bits) const {
    const Bits inverted = bits & kTop ? negative : Bits(0), key = bits ^ inverted ^ sign;
    if (Bits(key - least) > range) return kAll;  // also true as bool
    return key == minus_zero ? kTop : key;
  }

 private:
  // The largest magnitude that is not NaN.
  static __device__ Bits infinity_of(int32_t type) {
    if constexpr (sizeof(Bits) == 1) return type == kF8E4M3 ? 0x7eu : 0x7cu;
    else if constexpr (sizeof(Bits) == 2) return type == kBF16 ? 0x7f80u : 0x7c00u;
    else if constexpr (sizeof(Bits) == 4) return 0x7f800000u;
    else return 0x7ff0000000000000ull;
  }
};

template <class Key> __device__ __forceinline__ Key key_of(const void* at, int32_t type) {
  switch (log_size(type)) {
    case 0: return Key(KeyOrder<uint8_t>(type)(*static_cast<const uint8_t*>(at)));
    case 1: return Key(KeyOrder<uint16_t>(type)(*static_cast<const uint16_t*>(at)));
    case 2: return Key(KeyOrder<uint32_t>(type)(*static_cast<const uint32_t*>(at)));
    default: return Key(KeyOrder<uint64_t>(type)(*static_cast<const uint64_t*>(at)));
  }
}

// The significant bits of a key for a type, all set: used to reverse the order, and as the key of NaN.
template <class Key> __device__ __forceinline__ Key key_mask(int32_t type) {
  return Key(~0ull >> (64 - (8 << log_size(type))));
}

__device__ __forceinline__ void copy_element(uint64_t to, int64_t i, uint64_t from, int64_t j, int32_t type) {
  switch (log_size(type)) {
    case 0: reinterpret_cast<uint8_t*>(to)[i] = reinterpret_cast<const uint8_t*>(from)[j]; return;
    case 1: reinterpret_cast<uint16_t*>(to)[i] = reinterpret_cast<const uint16_t*>(from)[j]; return;
    case 2: reinterpret_cast<uint32_t*>(to)[i] = reinterpret_cast<const uint32_t*>(from)[j]; return;
    default: reinterpret_cast<uint64_t*>(to)[i] = reinterpret_cast<const uint64_t*>(from)[j]; return;
  }
}

}  // namespace strata::cuda
