// Floating-point instructions in every rounding direction, against exact arithmetic in 113 bits.
#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/cuda/vgpu/machine.h"

namespace strata::cuda::vgpu::testing {

namespace {

using Exact = __float128;

template <class T> Exact exact(T v) { return static_cast<Exact>(v); }

// a + b, moved by its last bit towards what did not fit into 113 bits.
Exact sum_of(Exact a, Exact b) {
  const Exact sum = a + b, other = sum - a, error = (a - (sum - other)) + (b - other);
  const Exact bit = (sum < 0 ? -sum : sum) * 0x1p-111;
  return error == 0 ? sum : error > 0 ? sum + bit : sum - bit;
}

// The nearest T from above or below, from the exact value: an independent rounding.
template <class T> T rounded(Exact v, const std::string& mode) {
  T near = static_cast<T>(v);
  if (mode == "rn" || std::isnan(near) || v == exact(near)) return near;
  const T below = exact(near) < v ? near : std::nextafter(near, -std::numeric_limits<T>::infinity());
  const T above = exact(near) > v ? near : std::nextafter(near, std::numeric_limits<T>::infinity());
  if (mode == "rm") return below;
  if (mode == "rp") return above;
  return v < 0 ? above : below;
}

template <class T> bool same(T a, T b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}

std::vector<float> floats() {
  std::vector<float> v{0.0f,        -0.0f,     1.0f,         -1.0f,           1.5f,
                       0x1p-126f,   0x1p-149f, -0x1.8p-140f, 0x1.fffffep127f, -0x1.fffffep127f,
                       3.14159274f, 1e10f,     1e-10f,       16777217.0f};
  std::mt19937 rng(7);
  std::uniform_real_distribution<float> d(-8, 8);
  for (int k = 0; k < 20; ++k) v.push_back(d(rng));
  return v;
}

template <class T> std::string name() { return sizeof(T) == 4 ? "f32" : "f64"; }

template <class T> void check_rounding() {
  std::vector<T> v;
  for (float f : floats()) v.push_back(static_cast<T>(f) * (sizeof(T) == 8 ? T(1.0000000001) : T(1)));
  const auto [a, b] = pairs(v);
  std::vector<T> c;
  for (size_t k = 0; k < a.size(); ++k) c.push_back(b[k] * T(0.7));
  for (const std::string mode : {"rn", "rz", "rm", "rp"}) {
    const std::string tail = "." + mode + "." + name<T>() + " %d, %a, %b;";
    const auto sum = each<T>("add" + tail, {a, b}), product = each<T>("mul" + tail, {a, b}),
               quotient = each<T>("div" + tail, {a, b});
    const auto root = each<T>("sqrt." + mode + "." + name<T>() + " %d, %a;", {a}),
               one = each<T>("rcp." + mode + "." + name<T>() + " %d, %a;", {a});
    const auto fma = each<T>("fma." + mode + "." + name<T>() + " %d, %a, %b, %c;", {a, b, c});
    for (size_t k = 0; k < a.size(); ++k) {
      const Exact x = exact(a[k]), y = exact(b[k]);
      if (x + y != 0) {
        ASSERT_TRUE(same(sum[k], rounded<T>(sum_of(x, y), mode)))
          << mode << " " << a[k] << " + " << b[k] << " = " << sum[k];
      }
      ASSERT_TRUE(same(product[k], rounded<T>(x * y, mode)) || x * y == 0)
        << mode << " " << a[k] << " * " << b[k] << " = " << product[k];
      if (y != 0) {
        ASSERT_TRUE(same(quotient[k], rounded<T>(x / y, mode)) || x == 0)
          << mode << " " << a[k] << " / " << b[k] << " = " << quotient[k];
      }
      if (x != 0) { ASSERT_TRUE(same(one[k], rounded<T>(1 / x, mode))) << mode << " 1 / " << a[k] << " = " << one[k]; }
      if (x * y + exact(c[k]) != 0) {
        ASSERT_TRUE(same(fma[k], rounded<T>(sum_of(x * y, exact(c[k])), mode)))
          << mode << " " << a[k] << " " << b[k] << " " << c[k];
      }
      if (x > 0) {  // the root is on the right side of the exact one
        const Exact square = exact(root[k]) * exact(root[k]);
        if (mode == "rm" || mode == "rz") {
          ASSERT_TRUE(square <= x &&
                      exact(std::nextafter(root[k], T(HUGE_VAL))) * exact(std::nextafter(root[k], T(HUGE_VAL))) > x);
        }
        if (mode == "rp") {
          ASSERT_TRUE(square >= x && exact(std::nextafter(root[k], T(0))) * exact(std::nextafter(root[k], T(0))) < x);
        }
        if (mode == "rn") { ASSERT_EQ(root[k], std::sqrt(a[k])); }
      }
    }
  }
}

TEST(Float, EveryRoundingOfSingles) { check_rounding<float>(); }
TEST(Float, EveryRoundingOfDoubles) { check_rounding<double>(); }

TEST(Float, FlushAndSaturation) {
  const std::vector<float> a{0x1p-140f, -0x1p-140f, 0x1p-126f, 2.0f, -3.0f, 0.25f, NAN, INFINITY},
    b{1, 1, 0.5f, 1, 1, 1, 1, 1};
  const auto flushed = each<float>("mul.ftz.f32 %d, %a, %b;", {a, b});
  EXPECT_TRUE(same(flushed[0], 0.0f) && same(flushed[1], -0.0f) && same(flushed[2], 0.0f)) << flushed[2];
  EXPECT_EQ(flushed[3], 2.0f);
  const auto kept = each<float>("mul.f32 %d, %a, %b;", {a, b});
  EXPECT_EQ(kept[0], 0x1p-140f);
  EXPECT_EQ(kept[2], 0x1p-127f);
  const auto sat = each<float>("mul.sat.f32 %d, %a, %b;", {a, b});
  EXPECT_EQ(sat[3], 1.0f);
  EXPECT_EQ(sat[4], 0.0f);
  EXPECT_EQ(sat[5], 0.25f);
  EXPECT_EQ(sat[6], 0.0f);
  EXPECT_EQ(sat[7], 1.0f);
}

TEST(Float, MinimumAndMaximum) {
  const auto [a, b] = pairs(std::vector<float>{0.0f, -0.0f, 1.0f, -2.0f, NAN, INFINITY, -INFINITY});
  const auto low = each<float>("min.f32 %d, %a, %b;", {a, b}), high = each<float>("max.NaN.f32 %d, %a, %b;", {a, b});
  const auto sign = each<float>("max.xorsign.abs.f32 %d, %a, %b;", {a, b});
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k] == 0 && b[k] == 0) {
      ASSERT_EQ(std::signbit(low[k]), std::signbit(a[k]) || std::signbit(b[k]));
      ASSERT_EQ(std::signbit(high[k]), std::signbit(a[k]) && std::signbit(b[k]));
      continue;
    }
    ASSERT_TRUE(same(low[k], std::fmin(a[k], b[k])));
    const bool nan = std::isnan(a[k]) || std::isnan(b[k]);
    ASSERT_TRUE(nan ? std::bit_cast<uint32_t>(high[k]) == 0x7fffffffu : same(high[k], std::fmax(a[k], b[k])));
    if (!nan) {
      ASSERT_EQ(sign[k],
                std::fmax(std::fabs(a[k]), std::fabs(b[k])) * (std::signbit(a[k]) != std::signbit(b[k]) ? -1 : 1));
    }
  }
}

TEST(Float, ApproximateFunctionsAreNear) {
  std::vector<float> v;
  for (int k = 1; k < 500; ++k) v.push_back(static_cast<float>(k) * 0.037f);
  struct Case {
    const char* text;
    double (*f)(double);
    double relative, absolute;
  };
  const Case cases[] = {{"ex2.approx.f32", [](double x) { return std::exp2(x); }, 2.4e-7, 0},
                        {"lg2.approx.f32", [](double x) { return std::log2(x); }, 2.4e-7, 6e-7},
                        {"sin.approx.f32", [](double x) { return std::sin(x); }, 0, 5e-7},
                        {"cos.approx.f32", [](double x) { return std::cos(x); }, 0, 5e-7},
                        {"rsqrt.approx.ftz.f32", [](double x) { return 1 / std::sqrt(x); }, 2.4e-7, 0},
                        {"rcp.approx.f32", [](double x) { return 1 / x; }, 1.2e-7, 0},
                        {"tanh.approx.f32", [](double x) { return std::tanh(x); }, 4.9e-4, 0}};
  for (const Case& c : cases) {
    const auto d = each<float>(std::string(c.text) + " %d, %a;", {v});
    for (size_t k = 0; k < v.size(); ++k) {
      const double e = c.f(v[k]);
      ASSERT_NEAR(d[k], e, std::fabs(e) * c.relative + c.absolute) << c.text << " " << v[k];
    }
  }
}

TEST(Float, ComparisonsOrderedAndNot) {
  const auto [a, b] = pairs(std::vector<float>{0.0f, -0.0f, 1.0f, -2.0f, NAN, INFINITY});
  const std::pair<const char*, bool (*)(float, float)> cases[] = {
    {"eq", [](float x, float y) { return x == y; }},
    {"ne", [](float x, float y) { return x != y && !std::isnan(x) && !std::isnan(y); }},
    {"lt", [](float x, float y) { return x < y; }},
    {"le", [](float x, float y) { return x <= y; }},
    {"gt", [](float x, float y) { return x > y; }},
    {"ge", [](float x, float y) { return x >= y; }},
    {"equ", [](float x, float y) { return x == y || std::isnan(x) || std::isnan(y); }},
    {"neu", [](float x, float y) { return !(x == y); }},
    {"ltu", [](float x, float y) { return !(x >= y); }},
    {"leu", [](float x, float y) { return !(x > y); }},
    {"gtu", [](float x, float y) { return !(x <= y); }},
    {"geu", [](float x, float y) { return !(x < y); }},
    {"num", [](float x, float y) { return !std::isnan(x) && !std::isnan(y); }},
    {"nan", [](float x, float y) { return std::isnan(x) || std::isnan(y); }}};
  for (const auto& [op, f] : cases) {
    const auto d = each<uint32_t>(
      fmt::format("setp.{}.f32 %p|%q, %a, %b; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;", op), {a, b});
    for (size_t k = 0; k < a.size(); ++k) ASSERT_EQ(d[k], f(a[k], b[k]) ? 1u : 2u) << op << " " << a[k] << " " << b[k];
  }
}

}  // namespace
}  // namespace strata::cuda::vgpu::testing
