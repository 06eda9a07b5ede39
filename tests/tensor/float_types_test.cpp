// The narrow floats compared with an independent reference: every code decoded from its definition, and encoding as a
// search for the nearest code, ties to even.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tensor/float_types.h"

namespace strata {
namespace {

struct Format {
  int exponent, mantissa;
  bool has_inf;  // e4m3fn has none: the top exponent is used for numbers, all ones is NaN
};
constexpr Format kE4M3{4, 3, false}, kE5M2{5, 2, true}, kF16{5, 10, true};

double decode(const Format& f, uint32_t code) {
  const uint32_t sign = code >> (f.exponent + f.mantissa) & 1, e = code >> f.mantissa & ((1u << f.exponent) - 1),
                 m = code & ((1u << f.mantissa) - 1);
  const uint32_t top = (1u << f.exponent) - 1, ones = (1u << f.mantissa) - 1;
  const int bias = (1 << (f.exponent - 1)) - 1;
  double v;
  if (f.has_inf && e == top) v = m ? NAN : INFINITY;
  else if (!f.has_inf && e == top && m == ones) v = NAN;
  else if (e == 0) v = std::pow(2.0, 1 - bias) * (m / std::pow(2.0, f.mantissa));
  else v = std::pow(2.0, static_cast<int>(e) - bias) * (1 + m / std::pow(2.0, f.mantissa));
  return sign ? -v : v;
}

// Finite magnitudes in increasing order are the codes 0, 1, 2, ...: a table and a search.
class Encoder {
 public:
  explicit Encoder(const Format& f) : f_(f) {
    for (uint32_t code = 0; code < 1u << (f.exponent + f.mantissa); ++code)
      if (std::isfinite(decode(f, code))) table_.push_back(decode(f, code));
  }
  uint32_t operator()(double v) const {
    const uint32_t sign = std::signbit(v) ? 1u << (f_.exponent + f_.mantissa) : 0;
    const double a = std::abs(v);
    const auto last = static_cast<uint32_t>(table_.size() - 1);
    const uint32_t beyond = f_.has_inf ? last + 1 : last;  // a format without infinity saturates
    if (std::isnan(v)) return sign | ~0u;
    // Halfway between the largest number and the next step rounds to even: up, as the largest has an odd code or not.
    const double step = table_[last] - table_[last - 1], limit = table_[last] + step / 2;
    if (a > limit || (a == limit && last % 2 == 1)) return sign | beyond;
    const auto at = static_cast<uint32_t>(std::lower_bound(table_.begin(), table_.end(), a) - table_.begin());
    if (at > last) return sign | last;
    if (at == 0 || table_[at] == a) return sign | at;
    const double below = a - table_[at - 1], above = table_[at] - a;
    return sign | (below < above || (below == above && (at - 1) % 2 == 0) ? at - 1 : at);
  }

 private:
  Format f_;
  std::vector<double> table_;
};

template <class T> void check_codes(const Format& f, uint32_t count) {
  for (uint32_t code = 0; code < count; ++code) {
    T t;
    t.bits = static_cast<decltype(t.bits)>(code);
    const double expected = decode(f, code);
    const auto got = static_cast<float>(t);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << code;
      ASSERT_TRUE(std::isnan(static_cast<float>(T(got)))) << code;
    } else {
      ASSERT_EQ(static_cast<double>(got), expected) << code;
      ASSERT_EQ(std::signbit(got), std::signbit(expected)) << code;
      ASSERT_EQ(T(got).bits, code);
    }
  }
}

template <class T> void check_encoding(const Format& f, float v, const Encoder& encode) {
  const uint32_t expected = encode(v), got = T(v).bits;
  if (std::isnan(v) || std::isnan(decode(f, expected))) ASSERT_TRUE(std::isnan(static_cast<float>(T(v)))) << v;
  else ASSERT_EQ(got, expected) << v << " " << std::hexfloat << v;
}

TEST(FloatTypes, DecodesAndEncodesEveryCodeExactly) {
  check_codes<Float8E4M3>(kE4M3, 256);
  check_codes<Float8E5M2>(kE5M2, 256);
  check_codes<Half>(kF16, 65536);
}

TEST(FloatTypes, EncodesEveryBFloat16ToTheNearestCode) {
  const Encoder e4m3(kE4M3), e5m2(kE5M2), f16(kF16);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    BFloat16 b;
    b.bits = static_cast<uint16_t>(bits);
    const auto v = static_cast<float>(b);
    check_encoding<Float8E4M3>(kE4M3, v, e4m3);
    check_encoding<Float8E5M2>(kE5M2, v, e5m2);
    check_encoding<Half>(kF16, v, f16);
    if (!std::isnan(v)) ASSERT_EQ(BFloat16(v).bits, bits);
    else ASSERT_TRUE(std::isnan(static_cast<float>(BFloat16(v))));
  }
}

TEST(FloatTypes, EncodesEveryHalfwayPointToTheEvenCode) {
  const Encoder e4m3(kE4M3), e5m2(kE5M2), f16(kF16);
  const auto around = [](auto check, const Format& f, const Encoder& encode) {
    for (uint32_t code = 0; code + 1 < 1u << (f.exponent + f.mantissa); ++code) {
      const double middle = (decode(f, code) + decode(f, code + 1)) / 2;
      if (!std::isfinite(middle)) break;
      const auto m = static_cast<float>(middle);
      for (float v : {m, std::nextafter(m, 0.F), std::nextafter(m, INFINITY)}) {
        check(f, v, encode);
        check(f, -v, encode);
      }
    }
  };
  around(check_encoding<Float8E4M3>, kE4M3, e4m3);
  around(check_encoding<Float8E5M2>, kE5M2, e5m2);
  around(check_encoding<Half>, kF16, f16);
}

TEST(FloatTypes, LimitsOfTheFormats) {
  EXPECT_EQ(static_cast<float>(Float8E4M3(448.F)), 448.F);
  EXPECT_EQ(static_cast<float>(Float8E4M3(464.F)), 448.F);  // a tie with what would be 480: to even
  EXPECT_EQ(static_cast<float>(Float8E4M3(465.F)), 448.F);  // no infinity: saturates
  EXPECT_EQ(static_cast<float>(Float8E4M3(-1e6F)), -448.F);
  EXPECT_EQ(static_cast<float>(Float8E4M3(INFINITY)), 448.F);
  EXPECT_TRUE(std::isnan(static_cast<float>(Float8E4M3(NAN))));
  EXPECT_EQ(static_cast<float>(Float8E5M2(57344.F)), 57344.F);
  EXPECT_EQ(static_cast<float>(Float8E5M2(61440.F)), INFINITY);
  EXPECT_EQ(static_cast<float>(Half(65519.F)), 65504.F);
  EXPECT_EQ(static_cast<float>(Half(65520.F)), INFINITY);
  EXPECT_EQ(static_cast<float>(Half(0x1p-25F)), 0.F);
  EXPECT_EQ(static_cast<float>(Half(std::nextafter(0x1p-25F, 1.F))), 0x1p-24F);
  EXPECT_EQ(static_cast<float>(BFloat16(3.4e38F)), INFINITY);  // rounds up past the largest
}

}  // namespace
}  // namespace strata
