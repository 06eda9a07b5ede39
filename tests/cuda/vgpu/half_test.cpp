// f16 and bf16: every code through conversion, arithmetic against exact values; cvt in every direction and rounding.
#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/cuda/vgpu/machine.h"

namespace strata::cuda::vgpu::testing {

namespace {

// A 16-bit float by its definition.
double value(uint16_t bits, int mantissa) {
  const int exponent = (bits & 0x7fff) >> mantissa, bias = mantissa == 10 ? 15 : 127, last = mantissa == 10 ? 31 : 255;
  const int fraction = bits & ((1 << mantissa) - 1);
  double v = exponent == last ? (fraction ? NAN : HUGE_VAL)
             : exponent == 0  ? std::ldexp(fraction, 1 - bias - mantissa)
                              : std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
  return bits & 0x8000 ? -v : v;
}

// Rounds by search among all codes: slow and plain.
uint16_t code(double v, int mantissa, const std::string& mode) {
  if (std::isnan(v)) return 0x7fff;
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0, infinity = mantissa == 10 ? 0x7c00 : 0x7f80;
  const double m = std::fabs(v);
  uint32_t low = 0, high = infinity;  // codes of positive numbers are ordered as the numbers are
  while (high - low > 1)
    (value(static_cast<uint16_t>((low + high) / 2), mantissa) <= m ? low : high) = (low + high) / 2;
  const double a = value(static_cast<uint16_t>(low), mantissa);
  if (m == a) return sign | static_cast<uint16_t>(low);
  if (std::isinf(m)) return sign | infinity;
  const double next =
    high == infinity ? std::ldexp(1.0, mantissa == 10 ? 16 : 128) : value(static_cast<uint16_t>(high), mantissa);
  bool up = m - a > next - m || (m - a == next - m && (low & 1));
  if (mode == "rz") up = false;
  if (mode == "rm") up = sign != 0;
  if (mode == "rp") up = sign == 0;
  return sign | static_cast<uint16_t>(up ? high : low);
}

std::vector<uint16_t> all_codes() {
  std::vector<uint16_t> v(65536);
  for (size_t k = 0; k < v.size(); ++k) v[k] = static_cast<uint16_t>(k);
  return v;
}

TEST(Half, EveryCodeToFloatAndBack) {
  const auto codes = all_codes();
  for (const auto& [type, mantissa] : {std::pair("f16", 10), std::pair("bf16", 7)}) {
    const auto wide = each<float>(fmt::format("cvt.f32.{} %d, %a;", type), {codes});
    const auto back = each<uint16_t>(fmt::format("cvt.rn.{}.f32 %d, %a;", type), {wide});
    for (size_t k = 0; k < codes.size(); ++k) {
      const double v = value(codes[k], mantissa);
      if (std::isnan(v)) {
        ASSERT_TRUE(std::isnan(wide[k]) && back[k] == 0x7fff) << type << " " << codes[k];
      } else {
        ASSERT_EQ(wide[k], v) << type << " " << codes[k];
        ASSERT_EQ(back[k], codes[k]);
      }
    }
  }
}

TEST(Half, ConversionsRoundInEveryDirection) {
  std::mt19937 rng(3);
  std::vector<float> v{0,           -0.0f,    65504,       65519.9f, 65520,    -65536, 0x1p-24f,  0x1p-25f,
                       -0x1.1p-25f, 0x1p-14f, 1.00048828f, 3.4e38f,  INFINITY, NAN,    0x1p-133f, 0x1p-134f};
  std::uniform_int_distribution<uint32_t> any;
  for (int k = 0; k < 2000; ++k)
    v.push_back(std::ldexp(static_cast<float>(any(rng)) * 0x1p-31f - 1.0f, static_cast<int>(any(rng) % 44) - 26));
  for (const std::string mode : {"rn", "rz"}) {
    const auto half = each<uint16_t>("cvt." + mode + ".f16.f32 %d, %a;", {v});
    const auto brain = each<uint16_t>("cvt." + mode + ".bf16.f32 %d, %a;", {v});
    for (size_t k = 0; k < v.size(); ++k) {
      ASSERT_EQ(half[k], code(v[k], 10, mode)) << mode << " " << v[k];
      ASSERT_EQ(brain[k], code(v[k], 7, mode)) << mode << " " << v[k];
    }
  }
  for (const std::string mode : {"rm", "rp"}) {
    const auto half = each<uint16_t>("cvt." + mode + ".f16.f32 %d, %a;", {v});
    for (size_t k = 0; k < v.size(); ++k) ASSERT_EQ(half[k], code(v[k], 10, mode)) << mode << " " << v[k];
  }
}

TEST(Half, ArithmeticIsRoundedOnce) {
  std::mt19937 rng(11);
  std::vector<uint16_t> a, b, c;
  std::uniform_int_distribution<uint32_t> any(0, 65535);
  for (int k = 0; k < 20000; ++k) {
    a.push_back(static_cast<uint16_t>(any(rng)));
    b.push_back(static_cast<uint16_t>(any(rng)));
    c.push_back(static_cast<uint16_t>(any(rng)));
  }
  for (const auto& [type, mantissa] : {std::pair("f16", 10), std::pair("bf16", 7)}) {
    const auto sum = each<uint16_t>(fmt::format("add.{} %d, %a, %b;", type), {a, b});
    const auto product = each<uint16_t>(fmt::format("mul.{} %d, %a, %b;", type), {a, b});
    const auto fused = each<uint16_t>(fmt::format("fma.rn.{} %d, %a, %b, %c;", type), {a, b, c});
    const auto most = each<uint16_t>(fmt::format("max.{} %d, %a, %b;", type), {a, b});
    for (size_t k = 0; k < a.size(); ++k) {
      const double x = value(a[k], mantissa), y = value(b[k], mantissa), z = value(c[k], mantissa);
      if (mantissa == 10) { ASSERT_EQ(sum[k], code(x + y, 10, "rn")) << x << " + " << y; }  // exact in double
      ASSERT_EQ(product[k], code(x * y, mantissa, "rn")) << x << " * " << y;
      const __float128 exact = static_cast<__float128>(x) * y + z;  // 113 bits are enough for f16, not for all of bf16
      if (mantissa == 10) {
        double d = static_cast<double>(exact);
        // Twice rounded only where double landed on a tie: moved off it by what was lost.
        if (exact != static_cast<__float128>(d))
          d = std::nextafter(d, exact > static_cast<__float128>(d) ? HUGE_VAL : -HUGE_VAL);
        ASSERT_EQ(fused[k], code(d, 10, "rn")) << x << " * " << y << " + " << z;
      }
      if (!std::isnan(x) && !std::isnan(y) && x != y) { ASSERT_EQ(most[k], x > y ? a[k] : b[k]); }
    }
  }
}

TEST(Half, PairsAreTwoHalves) {
  std::vector<uint32_t> a, b;
  std::mt19937 rng(5);
  for (int k = 0; k < 500; ++k) {
    a.push_back(static_cast<uint32_t>(rng()) & 0x3fff3fff);
    b.push_back(static_cast<uint32_t>(rng()) & 0x3fff3fff);
  }
  const auto d = each<uint32_t>("mul.rn.f16x2 %d, %a, %b;", {a, b});
  const auto relu = each<uint32_t>("fma.rn.relu.bf16x2 %d, %a, %b, 0xBF80BF80;", {a, b});
  for (size_t k = 0; k < a.size(); ++k)
    for (int h = 0; h < 2; ++h) {
      const auto x = static_cast<uint16_t>(a[k] >> 16 * h), y = static_cast<uint16_t>(b[k] >> 16 * h);
      ASSERT_EQ(static_cast<uint16_t>(d[k] >> 16 * h), code(value(x, 10) * value(y, 10), 10, "rn"));
      ASSERT_EQ(static_cast<uint16_t>(relu[k] >> 16 * h), code(std::max(0.0, value(x, 7) * value(y, 7) - 1), 7, "rn"));
    }
}

TEST(Convert, FloatToIntegerRoundsAndSaturates) {
  const std::vector<float> v{0.0f,   0.5f,          1.5f,           2.5f,   -0.5f,  -1.5f,   -2.7f, 3.3f,    1e10f,
                             -1e10f, 2147483648.0f, -2147483648.0f, 255.5f, 300.0f, -129.0f, NAN,   INFINITY};
  const std::pair<const char*, float (*)(float)> modes[] = {
    {"rni", std::nearbyint}, {"rzi", std::trunc}, {"rmi", std::floor}, {"rpi", std::ceil}};
  for (const auto& [mode, f] : modes) {
    const auto s = each<int32_t>(fmt::format("cvt.{}.s32.f32 %d, %a;", mode), {v});
    const auto u = each<uint64_t>(fmt::format("cvt.{}.u64.f32 %d, %a;", mode), {v});
    const auto b = each<int16_t>(fmt::format("cvt.{}.sat.s8.f32 %d, %a;", mode), {v});
    const auto same = each<float>(fmt::format("cvt.{}.f32.f32 %d, %a;", mode), {v});
    for (size_t k = 0; k < v.size(); ++k) {
      if (std::isnan(v[k])) {
        ASSERT_EQ(s[k], 0);
        continue;
      }
      const double r = f(v[k]);
      ASSERT_EQ(s[k], static_cast<int32_t>(std::min(std::max(r, -2147483648.0), 2147483647.0))) << mode << " " << v[k];
      ASSERT_EQ(u[k], r <= 0 ? 0 : r >= 0x1p64 ? UINT64_MAX : static_cast<uint64_t>(r));
      ASSERT_EQ(b[k], static_cast<int16_t>(std::min(std::max(r, -128.0), 127.0)));
      ASSERT_EQ(same[k], f(v[k]));
    }
  }
}

TEST(Convert, IntegersToFloatInEveryRounding) {
  std::vector<int64_t> v{0,
                         1,
                         -1,
                         16777217,
                         -16777217,
                         16777219,
                         INT64_MAX,
                         INT64_MIN,
                         (int64_t{1} << 53) + 1,
                         -(int64_t{1} << 53) - 1,
                         0x123456789abcdef};
  for (const std::string mode : {"rn", "rz", "rm", "rp"}) {
    const auto d = each<float>("cvt." + mode + ".f32.s64 %d, %a;", {v});
    const auto u = each<float>("cvt." + mode + ".f32.u64 %d, %a;", {v});
    for (size_t k = 0; k < v.size(); ++k) {
      const auto check = [&](float got, long double exact) {  // 64 bits of mantissa hold every integer
        const float near = static_cast<float>(exact);
        float expected = near;
        if (mode != "rn" && static_cast<long double>(near) != exact) {
          const float below = near < exact ? near : std::nextafter(near, -INFINITY),
                      above = near > exact ? near : std::nextafter(near, INFINITY);
          expected = mode == "rm" ? below : mode == "rp" ? above : exact < 0 ? above : below;
        }
        ASSERT_EQ(got, expected) << mode << " " << v[k];
      };
      check(d[k], static_cast<long double>(v[k]));
      check(u[k], static_cast<long double>(static_cast<uint64_t>(v[k])));
    }
  }
}

TEST(Convert, BetweenIntegersAndFromDouble) {
  const std::vector<int32_t> v{0, 1, -1, 127, 128, 255, 256, -129, 40000, INT32_MAX, INT32_MIN};
  const auto byte = each<int32_t>("cvt.s32.s8 %d, %a;", {v});
  const auto sat = each<uint32_t>("cvt.sat.u8.s32 %d, %a;", {v});
  const auto wide = each<int64_t>("cvt.s64.s32 %d, %a;", {v});
  const auto zero = each<uint64_t>("cvt.u64.u32 %d, %a;", {v});
  for (size_t k = 0; k < v.size(); ++k) {
    ASSERT_EQ(byte[k], static_cast<int8_t>(v[k]));
    ASSERT_EQ(sat[k], static_cast<uint32_t>(std::min(std::max(v[k], 0), 255)));
    ASSERT_EQ(wide[k], v[k]);
    ASSERT_EQ(zero[k], static_cast<uint32_t>(v[k]));
  }
  const std::vector<double> d{1.0000000001, -1.0000000001, 1e300, 0x1p-150, 3.5, NAN};
  const auto near = each<float>("cvt.rn.f32.f64 %d, %a;", {d}), down = each<float>("cvt.rm.f32.f64 %d, %a;", {d});
  EXPECT_EQ(near[0], 1.0f);
  EXPECT_EQ(down[1], std::nextafter(-1.0f, -2.0f));
  EXPECT_EQ(near[2], INFINITY);
  EXPECT_EQ(down[2], std::numeric_limits<float>::max());
  EXPECT_EQ(near[3], 0.0f);
  EXPECT_TRUE(std::isnan(near[5]));
  const std::vector<float> t{1.0f, 1.00048828125f, 1.000244140625f, -3.0f};  // tf32 keeps ten bits, ties away from zero
  const auto tf = each<float>("cvt.rna.tf32.f32 %d, %a;", {t});
  EXPECT_EQ(tf[1], 1.0009765625f);
  EXPECT_EQ(tf[2], 1.0f);
  EXPECT_EQ(tf[3], -3.0f);
}

}  // namespace
}  // namespace strata::cuda::vgpu::testing
