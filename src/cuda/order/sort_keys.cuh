// Elements as unsigned keys in sort order: NaN after all numbers, all NaN equal, -0 equal to 0.
#pragma once
#include "cuda/common/dtypes.cuh"

namespace strata::cuda {

// A float of `width` bits, as sign and magnitude; magnitudes above `infinity` are NaN.
template <class Key> __device__ __forceinline__ Key float_key(Key bits, int width, Key infinity) {
  const Key top = Key(1) << (width - 1), magnitude = bits & (top - 1), all = top | (top - 1);
  if (magnitude > infinity) return all;
  if (magnitude == 0) return top;
  return bits & top ? ~bits & all : bits | top;
}

template <class Key> __device__ __forceinline__ Key key_of(const void* at, int32_t type) {
  switch (type) {
    case kF32: return Key(float_key<uint32_t>(*static_cast<const uint32_t*>(at), 32, 0x7f800000u));
    case kBF16: return Key(float_key<uint32_t>(*static_cast<const uint16_t*>(at), 16, 0x7f80u));
    case kF16: return Key(float_key<uint32_t>(*static_cast<const uint16_t*>(at), 16, 0x7c00u));
    case kF8E4M3: return Key(float_key<uint32_t>(*static_cast<const uint8_t*>(at), 8, 0x7eu));
    case kF8E5M2: return Key(float_key<uint32_t>(*static_cast<const uint8_t*>(at), 8, 0x7cu));
    case kBool: return Key(*static_cast<const uint8_t*>(at) != 0);
    case kU8: return Key(*static_cast<const uint8_t*>(at));
    case kU16: return Key(*static_cast<const uint16_t*>(at));
    case kU32: return Key(*static_cast<const uint32_t*>(at));
    case kU64: return Key(*static_cast<const uint64_t*>(at));
    case kI8: return Key(*static_cast<const uint8_t*>(at) ^ 0x80u);
    case kI16: return Key(*static_cast<const uint16_t*>(at) ^ 0x8000u);
    case kI32: return Key(*static_cast<const uint32_t*>(at) ^ 0x80000000u);
    case kI64: return Key(*static_cast<const uint64_t*>(at) ^ 0x8000000000000000ull);
    default: return Key(float_key<uint64_t>(*static_cast<const uint64_t*>(at), 64, 0x7ff0000000000000ull));
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
