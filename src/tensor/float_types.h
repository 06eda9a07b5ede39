// The narrow floating types: storage only; arithmetic uses float. Conversions round to nearest even.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace strata {
namespace detail {

// Encodes a float as sign | exponent | mantissa with the given widths. kMax is the bit pattern of the largest finite
// magnitude (without sign), kInf that of infinity; formats without infinity use kMax for it: they saturate.
template <int kExponent, int kMantissa, uint32_t kInf, uint32_t kNan, uint32_t kMax>
inline uint32_t encode_small_float(float value) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 31, magnitude = bits & 0x7fffffffu;
  uint32_t out;
  if (magnitude > 0x7f800000u) {
    out = kNan;
  } else if (magnitude == 0x7f800000u) {
    out = kInf;
  } else {
    const int exponent = static_cast<int>(magnitude >> 23) - 127 + kBias;
    if (exponent <= 0) {  // subnormal in the target: scale so that the target's last bit is 1, and round with the FPU
      const float scaled = std::bit_cast<float>(magnitude) * std::ldexp(1.0F, kBias - 1 + kMantissa);
      out = static_cast<uint32_t>(std::nearbyint(scaled));
    } else {
      const uint32_t drop = 23 - kMantissa, half = (1u << (drop - 1)) - 1 + (magnitude >> drop & 1u);
      const int64_t rounded = static_cast<int64_t>(magnitude) + half - (static_cast<int64_t>(127 - kBias) << 23);
      out = static_cast<uint32_t>(rounded >> drop);
      if (out > kMax) out = kInf;
    }
  }
  return sign << (kExponent + kMantissa) | out;
}

template <int kExponent, int kMantissa> inline float decode_small_float(uint32_t code) {  // for finite codes
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  const uint32_t sign = code >> (kExponent + kMantissa), exponent = code >> kMantissa & ((1u << kExponent) - 1);
  const uint32_t mantissa = code & ((1u << kMantissa) - 1);
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissa)
                                        : std::ldexp(static_cast<float>(mantissa | 1u << kMantissa),
                                                     static_cast<int>(exponent) - kBias - kMantissa);
  return sign ? -magnitude : magnitude;
}
}  // namespace detail

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    bits = (u & 0x7fffffffu) > 0x7f800000u ? static_cast<uint16_t>(u >> 16 | 0x40u)
                                           : static_cast<uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct Half {
  uint16_t bits;
  Half() = default;
  explicit Half(float value)
      : bits(static_cast<uint16_t>(detail::encode_small_float<5, 10, 0x7c00, 0x7e00, 0x7bff>(value))) {}
  explicit operator float() const {
    const uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u)
      return std::bit_cast<float>(static_cast<uint32_t>(bits & 0x8000u) << 16 | 0x7f800000u |
                                  (magnitude & 0x3ffu) << 13);
    return detail::decode_small_float<5, 10>(bits);
  }
};

// e4m3fn: no infinity, one NaN pattern per sign; values out of range become the largest number, 448, as in PyTorch.
struct Float8E4M3 {
  uint8_t bits;
  Float8E4M3() = default;
  explicit Float8E4M3(float value)
      : bits(static_cast<uint8_t>(detail::encode_small_float<4, 3, 0x7e, 0x7f, 0x7e>(value))) {}
  explicit operator float() const {
    return (bits & 0x7fu) == 0x7fu ? std::bit_cast<float>((bits & 0x80u) << 24 | 0x7fc00000u)
                                   : detail::decode_small_float<4, 3>(bits);
  }
};

struct Float8E5M2 {
  uint8_t bits;
  Float8E5M2() = default;
  explicit Float8E5M2(float value)
      : bits(static_cast<uint8_t>(detail::encode_small_float<5, 2, 0x7c, 0x7f, 0x7b>(value))) {}
  explicit operator float() const {
    const uint32_t magnitude = bits & 0x7fu;
    if (magnitude >= 0x7cu) return std::bit_cast<float>((bits & 0x80u) << 24 | 0x7f800000u | (magnitude & 3u) << 21);
    return detail::decode_small_float<5, 2>(bits);
  }
};

}  // namespace strata
