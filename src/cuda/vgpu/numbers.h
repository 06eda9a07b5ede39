// Floating-point formats in bits: rounding in every IEEE direction, the 16-bit types, and the host's rounding mode.
#pragma once
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>

namespace strata::cuda::vgpu {

enum class Rounding : uint8_t { Nearest, Zero, Down, Up, NearestAway };

struct Format {
  int exponent_bits, mantissa_bits;
  bool infinity = true;  // e4m3 has none: its largest codes are numbers and one NaN
};
inline constexpr Format kF16{5, 10}, kBF16{8, 7}, kTF32{8, 10}, kF32{8, 23}, kF64{11, 52}, kE5M2{5, 2},
  kE4M3{4, 3, false};

// mantissa * 2^exponent, rounded once into the format's bits. saturate: overflow becomes the largest number instead of
// infinity.
uint64_t encode(bool negative, uint64_t mantissa, int exponent, const Format& format, Rounding rounding,
                bool saturate = false);
// Encodes a double in the format; NaN becomes the format's canonical NaN.
uint64_t encode(double value, const Format& format, Rounding rounding, bool saturate = false);
double decode(uint64_t bits, const Format& format);

// a + b with the last bit set if inexact: rounding the result to at most 51 bits then equals rounding the exact sum.
double add_to_odd(double a, double b);

inline float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, rest = h & 0x7fff;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  // Shifts the bits and corrects the bias by a multiplication, which also handles subnormal numbers.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112f));
}
inline uint16_t float_to_half(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return 0x7fff;
  if (rest >= 0x47800000) return static_cast<uint16_t>(sign | 0x7c00);
  if (rest < 0x38800000)  // subnormal: adding 0.5 leaves the rounded bits at the end of the mantissa
    return static_cast<uint16_t>(
      sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(rest) + 0.5f) - std::bit_cast<uint32_t>(0.5f)));
  return static_cast<uint16_t>(sign | (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13);
}
inline float bf16_to_float(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }
inline uint16_t float_to_bf16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float flushed(float f) {  // .ftz
  return (std::bit_cast<uint32_t>(f) & 0x7f800000) == 0 ? std::copysign(0.0f, f) : f;
}

// A compiler barrier for the memory of `p`: computations are not moved across it, since the compiler ignores rounding
// modes.
inline void stay(const void* p) { asm volatile("" : : "r"(p) : "memory"); }

// Sets the host's rounding mode for a scope. Operands are read from memory, and results written to it, between two
// stay().
class HostRounding {
 public:
  explicit HostRounding(Rounding r) : changed_(r != Rounding::Nearest) {
    if (!changed_) return;
#ifdef __SSE__
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((before & ~0x6000u) | (r == Rounding::Zero   ? 0x6000u
                                                  : r == Rounding::Down ? 0x2000u
                                                                        : 0x4000u));
#else
    std::fesetround(r == Rounding::Zero ? FE_TOWARDZERO : r == Rounding::Down ? FE_DOWNWARD : FE_UPWARD);
#endif
  }
  ~HostRounding() {
    if (!changed_) return;
#ifdef __SSE__
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~0x6000u);
#else
    std::fesetround(FE_TONEAREST);
#endif
  }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  bool changed_;
};

}  // namespace strata::cuda::vgpu
