// The small floats of ONNX that Strata's tensors do not have, and its integers of 2 and 4 bits: their codes and values.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "onnx/tensor_data.h"

namespace strata::onnx {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

// Sign, exponent and mantissa; codes above `largest` are infinity or NaN.
struct Format {
  int exponent_bits, mantissa_bits, bias, largest;
  bool unsigned_zero;  // the code of -0 is NaN ("FNUZ")
  bool infinity;       // the code after the largest is infinity
  bool has_nan;
};
const Format* format_of(ElementType type) {
  static constexpr Format kE4M3FN{4, 3, 7, 0x7e, false, false, true}, kE4M3FNUZ{4, 3, 8, 0x7f, true, false, true},
    kE5M2{5, 2, 15, 0x7b, false, true, true}, kE5M2FNUZ{5, 2, 16, 0x7f, true, false, true},
    kE2M1{2, 1, 1, 7, false, false, false}, kE2M3{2, 3, 1, 31, false, false, false},
    kE3M2{3, 2, 3, 31, false, false, false};
  switch (type) {
    case ElementType::Float8E4M3FN: return &kE4M3FN;
    case ElementType::Float8E4M3FNUZ: return &kE4M3FNUZ;
    case ElementType::Float8E5M2: return &kE5M2;
    case ElementType::Float8E5M2FNUZ: return &kE5M2FNUZ;
    case ElementType::Float4E2M1: return &kE2M1;
    case ElementType::Float6E2M3: return &kE2M3;
    case ElementType::Float6E3M2: return &kE3M2;
    default: return nullptr;
  }
}

float magnitude_of(int code, const Format& f) {  // of a code without its sign bit
  if (f.infinity && code == f.largest + 1) return kInfinity;
  if (code > f.largest) return kNan;
  const int exponent = code >> f.mantissa_bits, mantissa = code & ((1 << f.mantissa_bits) - 1);
  const int scale = std::max(exponent, 1) - f.bias - f.mantissa_bits;
  return std::ldexp(static_cast<float>(mantissa + (exponent ? 1 << f.mantissa_bits : 0)), scale);
}
float value_of(uint8_t code, const Format& f) {
  const int sign_bit = 1 << (f.exponent_bits + f.mantissa_bits);
  if (f.unsigned_zero && code == sign_bit) return kNan;
  const float magnitude = magnitude_of(code & (sign_bit - 1), f);
  return code & sign_bit ? -magnitude : magnitude;
}

float rounded(float x, const Format& f, const float* values, bool saturate) {
  const float largest = values[f.largest], beyond = f.infinity ? kInfinity : kNan;
  if (std::isnan(x)) return f.has_nan ? kNan : 0;
  const float magnitude = std::abs(x);
  const auto end = values + f.largest + 1;
  const float* above = std::lower_bound(values, end, magnitude);
  float result;
  if (above == end) {
    // the step at the end of the range continues beyond it
    const float step = largest - values[f.largest - 1];
    const float half = largest + step / 2;
    const bool over = magnitude > half || (magnitude == half && f.largest % 2 == 1);
    result = over && !saturate && (f.has_nan || f.infinity) ? beyond : largest;
  } else if (*above == magnitude || above == values) {
    result = *above;
  } else {
    const float low = magnitude - above[-1], high = *above - magnitude;
    const bool even = (above - values) % 2 == 0;
    result = low < high || (low == high && !even) ? above[-1] : *above;
  }
  if (f.unsigned_zero && result == 0) return 0;
  return std::copysign(result, x);
}

int signed_bits(ElementType type) { return type == ElementType::Int4 ? 4 : type == ElementType::Int2 ? 2 : 0; }
}  // namespace

Tensor decode_codes(const uint8_t* codes, Shape shape, ElementType type) {
  const Tensor out = make_tensor(shape, storage_dtype(type));
  const int64_t n = out.numel();
  if (const Format* f = format_of(type)) {
    float* to = out.data<float>();
    for (int64_t i = 0; i < n; ++i) to[i] = value_of(codes[i], *f);
  } else if (type == ElementType::Float8E8M0) {
    float* to = out.data<float>();
    for (int64_t i = 0; i < n; ++i) to[i] = codes[i] == 0xff ? kNan : std::ldexp(1.0F, codes[i] - 127);
  } else {
    const int bits = signed_bits(type);
    auto* to = reinterpret_cast<uint8_t*>(out.bytes());
    for (int64_t i = 0; i < n; ++i)
      to[i] = static_cast<uint8_t>(bits && codes[i] >> (bits - 1) ? codes[i] - (1 << bits) : codes[i]);
  }
  return out;
}

void round_to(float* values, int64_t n, ElementType type, bool saturate) {
  const Format* f = format_of(type);
  STRATA_ASSERT(f != nullptr);
  std::array<float, 256> table{};
  for (int code = 0; code <= f->largest; ++code) table[static_cast<size_t>(code)] = magnitude_of(code, *f);
  for (int64_t i = 0; i < n; ++i) values[i] = rounded(values[i], *f, table.data(), saturate);
}

}  // namespace strata::onnx
