// Rounding into any small floating-point format.
#include "cuda/vgpu/numbers.h"

#include <algorithm>

namespace strata::cuda::vgpu {

namespace {
uint64_t canonical_nan(const Format& f) {  // as a GPU writes it: positive, all mantissa bits set
  return (uint64_t{1} << (f.exponent_bits + f.mantissa_bits)) - 1;
}

bool round_up(bool negative, uint64_t kept, int below,
              Rounding rounding) {  // below: 0 exact, 1 under half, 2 half, 3 over
  switch (rounding) {
    case Rounding::Nearest: return below == 3 || (below == 2 && (kept & 1));
    case Rounding::NearestAway: return below >= 2;
    case Rounding::Zero: return false;
    case Rounding::Down: return negative && below != 0;
    case Rounding::Up: return !negative && below != 0;
  }
  return false;
}
}  // namespace

uint64_t encode(bool negative, uint64_t mantissa, int exponent, const Format& f, Rounding rounding, bool saturate) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1, smallest = 1 - bias;
  const uint64_t sign = negative ? uint64_t{1} << (f.exponent_bits + f.mantissa_bits) : 0;
  if (mantissa == 0) return sign;
  const int top = exponent + 63 - std::countl_zero(mantissa), scale = std::max(top, smallest);
  const int shift = scale - f.mantissa_bits - exponent;
  uint64_t kept = 0;
  int below = 0;
  if (shift <= 0) {
    kept = mantissa << -shift;
  } else if (shift > 64) {
    below = 1;
  } else {
    kept = shift == 64 ? 0 : mantissa >> shift;
    const uint64_t rest = shift == 64 ? mantissa : mantissa & ((uint64_t{1} << shift) - 1);
    const uint64_t half = uint64_t{1} << (shift - 1);
    below = rest == 0 ? 0 : rest < half ? 1 : rest == half ? 2 : 3;
  }
  kept += round_up(negative, kept, below, rounding);
  const uint64_t bits = (static_cast<uint64_t>(scale - smallest) << f.mantissa_bits) + kept;
  const uint64_t infinity = ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  const uint64_t largest = f.infinity ? infinity - 1 : canonical_nan(f) - 1;
  if (bits <= largest) return sign | bits;
  const bool stays =
    rounding == Rounding::Zero || (rounding == Rounding::Down && !negative) || (rounding == Rounding::Up && negative);
  if (saturate || stays) return sign | largest;
  return sign | (f.infinity ? infinity : canonical_nan(f));
}

uint64_t encode(double value, const Format& f, Rounding rounding, bool saturate) {
  if (value != value) return canonical_nan(f);
  const auto bits = std::bit_cast<uint64_t>(value);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  // Infinity: a power of two beyond every format, whose exponent still fits next to 52 bits of mantissa.
  if (exponent == 0x7ff) return encode(bits >> 63, 1, 1100, f, saturate ? Rounding::Zero : Rounding::Nearest, saturate);
  return encode(bits >> 63, exponent ? mantissa | uint64_t{1} << 52 : mantissa, std::max(exponent, 1) - 1075, f,
                rounding, saturate);
}

double decode(uint64_t bits, const Format& f) {
  const uint64_t mantissa = bits & ((uint64_t{1} << f.mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> f.mantissa_bits & ((uint64_t{1} << f.exponent_bits) - 1));
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const bool negative = bits >> (f.exponent_bits + f.mantissa_bits) & 1, last = exponent == (1 << f.exponent_bits) - 1;
  double value = 0;
  if (last && (f.infinity || mantissa == (uint64_t{1} << f.mantissa_bits) - 1))
    value = f.infinity && mantissa == 0 ? HUGE_VAL : NAN;
  else if (exponent == 0) value = std::ldexp(static_cast<double>(mantissa), 1 - bias - f.mantissa_bits);
  else
    value =
      std::ldexp(static_cast<double>(mantissa | uint64_t{1} << f.mantissa_bits), exponent - bias - f.mantissa_bits);
  return negative ? -value : value;
}

double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double other = sum - a, error = (a - (sum - other)) + (b - other);  // Knuth's exact error of the sum
  const auto bits = std::bit_cast<int64_t>(sum);
  if (error == 0 || (bits & 1)) return sum;
  const bool away = (error > 0) == (sum > 0);
  return std::bit_cast<double>(away ? bits + 1 : bits - 1);
}

}  // namespace strata::cuda::vgpu
