// The vector functions of device/math.h against the C library in long double: sweeps with bounds in units of the last place,
// and special values, for every SIMD target this machine can run.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/device/math_test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#define STRATA_SIMD_TARGET
#include "device/math.h"

#ifndef STRATA_MATH_TEST_ONCE
#define STRATA_MATH_TEST_ONCE
namespace strata::math_test {

// The distance between a result and the exact value, in units of the result type's last place.
template <class T> double ulps(T got, long double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : HUGE_VAL;
  const T rounded = static_cast<T>(exact);
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : HUGE_VAL;
  const int exponent = std::max(rounded == 0 ? -100000 : std::ilogb(rounded), std::numeric_limits<T>::min_exponent - 1);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) /
                             std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits + 1));
}

template <class T> bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

// Numbers spread over [low, high], dense near zero when the range spans it.
template <class T> std::vector<T> sweep(double low, double high) {
  std::vector<T> x;
  constexpr int kCount = 20000;
  for (int i = 0; i <= kCount; ++i) x.push_back(static_cast<T>(low + (high - low) * i / kCount));
  for (double scale = 1; scale > 1e-30; scale *= 0.77)
    for (double v : {low * scale, high * scale})
      if (v >= low && v <= high) x.push_back(static_cast<T>(v));
  return x;
}

template <class T> std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  return {T(0),
          T(-0.0),
          T(1),
          T(-1),
          T(0.5),
          T(-0.5),
          T(2),
          T(-2),
          L::infinity(),
          -L::infinity(),
          L::quiet_NaN(),
          L::max(),
          L::lowest(),
          L::min(),
          -L::min(),
          L::denorm_min(),
          -L::denorm_min(),
          L::epsilon(),
          -L::epsilon(),
          T(1e30),
          T(-1e30),
          T(88.5),
          T(-88.5),
          T(104),
          T(-104),
          T(710),
          T(-710),
          T(746),
          T(-746),
          T(1e-20),
          T(-1e-20),
          T(3.5),
          T(40000),
          T(-40000),
          T(1e10),
          T(-1e10),
          T(0.9277),
          T(10),
          T(-10),
          T(28),
          T(-28)};
}
}  // namespace strata::math_test
#endif

HWY_BEFORE_NAMESPACE();
namespace strata {
namespace HWY_NAMESPACE {
namespace {
#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;
using namespace math_test;

template <class T, class F> std::vector<T> evaluate(const std::vector<T>& x, F f) {
  const hn::ScalableTag<T> d;
  std::vector<T> in(x), out(x.size() + hn::Lanes(d));
  in.resize(x.size() + hn::Lanes(d), T(0));
  for (size_t i = 0; i < x.size(); i += hn::Lanes(d)) hn::StoreU(f(hn::LoadU(d, in.data() + i)), d, out.data() + i);
  out.resize(x.size());
  return out;
}
template <class T, class F> std::vector<T> evaluate(const std::vector<T>& x, const std::vector<T>& y, F f) {
  const hn::ScalableTag<T> d;
  std::vector<T> a(x), b(y), out(x.size() + hn::Lanes(d));
  a.resize(out.size(), T(1));
  b.resize(out.size(), T(1));
  for (size_t i = 0; i < x.size(); i += hn::Lanes(d))
    hn::StoreU(f(hn::LoadU(d, a.data() + i), hn::LoadU(d, b.data() + i)), d, out.data() + i);
  out.resize(x.size());
  return out;
}

template <class T, class F, class R>
void check_sweep(const char* name, double low, double high, double bound, F f, R reference) {
  const std::vector<T> x = sweep<T>(low, high), y = evaluate(x, f);
  double worst = 0;
  T at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = ulps<T>(y[i], reference(static_cast<long double>(x[i])));
    if (!(error <= worst)) {
      worst = error;
      at = x[i];
    }
  }
  EXPECT_LE(worst, bound) << name << (sizeof(T) == 4 ? " float" : " double") << " at " << at << " on "
                          << hwy::TargetName(HWY_TARGET);
}

// Special values: infinities, NaN and zeros (with their sign) exactly as in the C library, the others within the bound.
template <class T, class F, class R> void check_special(const char* name, double bound, F f, R reference) {
  const std::vector<T> x = special_values<T>(), y = evaluate(x, f);
  for (size_t i = 0; i < x.size(); ++i) {
    const T expected = reference(x[i]);
    const bool plain = std::isfinite(expected) && expected != 0;
    EXPECT_TRUE(plain ? ulps<T>(y[i], expected) <= bound : same_bits(y[i], expected))
      << name << (sizeof(T) == 4 ? " float" : " double") << '(' << x[i] << ") = " << y[i] << ", expected " << expected
      << " on " << hwy::TargetName(HWY_TARGET);
  }
}

#define STRATA_CHECK_MATH(name, low, high, bound32, bound64)           \
  do {                                                                 \
    const auto vector = [](auto v) HWY_ATTR { return math::name(v); }; \
    const auto exact = [](long double v) { return std::name(v); };     \
    const auto scalar = [](auto v) { return std::name(v); };           \
    check_sweep<float>(#name, low, high, bound32, vector, exact);      \
    check_sweep<double>(#name, low, high, bound64, vector, exact);     \
    check_special<float>(#name, bound32 + 1, vector, scalar);          \
    check_special<double>(#name, bound64 + 1, vector, scalar);         \
  } while (0)

// A strided subset of all floats: every exponent, both signs, subnormal numbers, infinities and NaN.
template <class F, class R> void check_all_floats(const char* name, double bound, F f, R reference) {
  constexpr uint32_t kStep = 10007;
  std::vector<float> x;
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += kStep) {
    const auto word = static_cast<uint32_t>(bits);
    float v;
    std::memcpy(&v, &word, sizeof v);
    x.push_back(v);
  }
  const std::vector<float> y = evaluate(x, f);
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = ulps<float>(y[i], reference(static_cast<long double>(x[i])));
    if (!(error <= worst)) {
      worst = error;
      at = x[i];
    }
  }
  EXPECT_LE(worst, bound) << name << " at " << at << " on " << hwy::TargetName(HWY_TARGET);
}
#define STRATA_CHECK_ALL_FLOATS(name, bound) \
  check_all_floats(                          \
    #name, bound, [](auto v) HWY_ATTR { return math::name(v); }, [](long double v) { return std::name(v); })

void AllFloats() {
  STRATA_CHECK_ALL_FLOATS(log2, 1);
  STRATA_CHECK_ALL_FLOATS(log10, 1);
  STRATA_CHECK_ALL_FLOATS(tan, 1);
  STRATA_CHECK_ALL_FLOATS(asin, 1);
  STRATA_CHECK_ALL_FLOATS(acos, 1);
  STRATA_CHECK_ALL_FLOATS(atan, 1.1);
  STRATA_CHECK_ALL_FLOATS(atanh, 1);
  STRATA_CHECK_ALL_FLOATS(erfc, 2);
  // Powers of the base, which people compare with whole numbers.
  std::vector<float> tens, twos;
  for (int i = -37; i <= 38; ++i) tens.push_back(static_cast<float>(std::pow(10.0L, i)));
  for (int i = -149; i <= 127; ++i) twos.push_back(std::ldexp(1.0F, i));
  const std::vector<float> of_tens = evaluate(tens, [](auto v) HWY_ATTR { return math::log10(v); });
  const std::vector<float> of_twos = evaluate(twos, [](auto v) HWY_ATTR { return math::log2(v); });
  for (size_t i = 0; i < tens.size(); ++i) EXPECT_EQ(of_tens[i], static_cast<float>(i) - 37);
  for (size_t i = 0; i < twos.size(); ++i) EXPECT_EQ(of_twos[i], static_cast<float>(i) - 149);
}

void Elementary() {
  STRATA_CHECK_MATH(exp, -110, 90, 2, 2);
  STRATA_CHECK_MATH(exp2, -150, 130, 1, 1);
  STRATA_CHECK_MATH(expm1, -30, 88, 2, 3);
  STRATA_CHECK_MATH(log, 1e-30, 100, 3, 3);
  STRATA_CHECK_MATH(log2, 1e-30, 100, 1, 1);
  STRATA_CHECK_MATH(log10, 1e-30, 100, 1, 2);
  STRATA_CHECK_MATH(log1p, -0.9999, 100, 3, 4);
  STRATA_CHECK_MATH(sin, -1000, 1000, 3, 4);
  STRATA_CHECK_MATH(sin, -19000, 19000, 3, 4000);
  STRATA_CHECK_MATH(cos, -1000, 1000, 3, 1000);
  STRATA_CHECK_MATH(tan, -100, 100, 1, 2);
  STRATA_CHECK_MATH(asin, -1, 1, 1, 3);
  STRATA_CHECK_MATH(acos, -1, 1, 1, 3);
  STRATA_CHECK_MATH(atan, -50, 50, 1, 3);
  STRATA_CHECK_MATH(sinh, -90, 90, 1, 5);
  STRATA_CHECK_MATH(cosh, -90, 90, 1, 5);
  STRATA_CHECK_MATH(tanh, -20, 20, 3, 4);
  STRATA_CHECK_MATH(asinh, -1e6, 1e6, 1, 5);
  STRATA_CHECK_MATH(acosh, 1, 1e6, 1, 5);
  STRATA_CHECK_MATH(atanh, -1, 1, 1, 5);
}

// The floats nearest to the zeros of sine, cosine and tangent, and to the poles of the tangent: only an exact reduction gets them right.
void NearZeros() {
  std::vector<float> x;
  for (int k = 1; k < 12000; ++k) x.push_back(static_cast<float>(k * 1.57079632679489661923));
  const std::vector<float> s = evaluate(x, [](auto v) HWY_ATTR { return math::sin(v); });
  const std::vector<float> c = evaluate(x, [](auto v) HWY_ATTR { return math::cos(v); });
  const std::vector<float> t = evaluate(x, [](auto v) HWY_ATTR { return math::tan(v); });
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(ulps<float>(s[i], std::sin(static_cast<long double>(x[i]))), 3) << "sin " << x[i];
    ASSERT_LE(ulps<float>(c[i], std::cos(static_cast<long double>(x[i]))), 3) << "cos " << x[i];
    ASSERT_LE(ulps<float>(t[i], std::tan(static_cast<long double>(x[i]))), 1) << "tan " << x[i];
  }
}

void Special() {
  STRATA_CHECK_MATH(erf, -10, 10, 2, 2);
  STRATA_CHECK_MATH(erfc, -10, 10, 2, 8);
  STRATA_CHECK_MATH(lgamma, 0.01, 30, 3, 3);
  STRATA_CHECK_MATH(lgamma, 0.999, 2.001, 3, 3);  // around its zeros
  STRATA_CHECK_MATH(lgamma, 1, 1e6, 3, 3);
  check_sweep<float>(
    "lgamma", -40.3, -0.001, 3, [](auto v) HWY_ATTR { return math::lgamma(v); },
    [](long double v) { return std::lgamma(v); });
  // No closed form in the C library: against formulas in long double.
  const auto sigmoid = [](long double v) { return 1 / (1 + std::exp(-v)); };
  check_sweep<float>(
    "sigmoid", -80, 80, 3, [](auto v) HWY_ATTR { return math::sigmoid(v); }, sigmoid);
  check_sweep<double>(
    "sigmoid", -700, 700, 3, [](auto v) HWY_ATTR { return math::sigmoid(v); }, sigmoid);
  const auto cdf = [](long double v) { return 0.5L * std::erfc(-v * 0.70710678118654752440084436210485L); };
  // In float the exponent of the tail is rounded: far out on the left that leaves a relative error of 1e-6.
  check_sweep<float>(
    "normal_cdf", -3, 9, 24, [](auto v) HWY_ATTR { return math::normal_cdf(v); }, cdf);
  check_sweep<double>(
    "normal_cdf", -3, 9, 16, [](auto v) HWY_ATTR { return math::normal_cdf(v); }, cdf);
  const auto bounded = [](long double v) { return std::log1p(std::exp(-std::fabs(v))); };
  check_sweep<float>(
    "log1p_exp_neg_abs", -80, 80, 3, [](auto v) HWY_ATTR { return math::log1p_exp_neg_abs(v); }, bounded);
  const std::vector<double> y = sweep<double>(-0.9999999, 0.9999999),
                            x = evaluate(y, [](auto v) HWY_ATTR { return math::erfinv(v); });
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(std::erf(x[i]), y[i], 1e-15) << y[i];
  const auto inverse = [](auto v) HWY_ATTR { return math::erfinv(v); };
  const auto wide_inverse = [](auto v) { return math::erfinv(static_cast<double>(v)); };
  check_sweep<float>("erfinv", -0.99999994, 0.99999994, 3, inverse, wide_inverse);
  check_special<float>("erfinv", 3, inverse, [&](float v) { return static_cast<float>(wide_inverse(v)); });
  // digamma(x + 1) = digamma(x) + 1 / x, and digamma(1) is Euler's constant.
  const std::vector<double> p = sweep<double>(-7.73, 40);
  const auto psi = [](auto v) HWY_ATTR { return math::digamma(v); };
  std::vector<double> shifted(p);
  for (double& v : shifted) v += 1;
  const std::vector<double> a = evaluate(p, psi), b = evaluate(shifted, psi);
  for (size_t i = 0; i < p.size(); ++i)
    if (std::fabs(p[i] - std::round(p[i])) > 1e-3)
      ASSERT_NEAR(b[i], a[i] + 1 / p[i], 1e-10 * (1 + std::fabs(a[i]))) << p[i];
  EXPECT_NEAR(evaluate(std::vector<double>{1}, psi)[0], -0.57721566490153286061, 1e-15);
  // Float results come from another formula: against the double ones.
  const auto wide = [](auto v) { return math::digamma(static_cast<double>(v)); };
  for (auto [low, high] : {std::pair(-20.3, -0.001), std::pair(0.001, 3.0), std::pair(3.0, 1e4)})
    check_sweep<float>("digamma", low, high, 3, psi, wide);
  check_special<float>("digamma", 3, psi, [&](float v) { return static_cast<float>(wide(v)); });
  const auto slope = [](auto v) HWY_ATTR { return math::polygamma(v, math::like(v, 1)); };
  const auto wide_slope = [](auto v) { return math::polygamma(static_cast<double>(v), 1.0); };
  for (auto [low, high] : {std::pair(-20.3, -0.001), std::pair(0.001, 3.0), std::pair(3.0, 1e4)})
    check_sweep<float>("trigamma", low, high, 3, slope, wide_slope);
}

void Pairs() {
  std::vector<float> x, y;
  for (float a : special_values<float>())
    for (float b : special_values<float>()) {
      x.push_back(a);
      y.push_back(b);
    }
  for (int i = 0; i < 20000; ++i) {
    x.push_back(std::exp(std::sin(i * 1.1F) * 20));
    y.push_back(std::cos(i * 0.7F) * 4);
  }
  const auto check = [&](const char* name, double bound, auto vector, auto reference) {
    const std::vector<float> z = evaluate(x, y, vector);
    for (size_t i = 0; i < x.size(); ++i) {
      const float expected = reference(x[i], y[i]);
      const bool plain = std::isfinite(expected) && expected != 0;
      ASSERT_TRUE(plain ? ulps<float>(z[i], expected) <= bound : same_bits(z[i], expected))
        << name << '(' << x[i] << ", " << y[i] << ") = " << z[i] << ", expected " << expected;
    }
  };
  check(
    "pow", 2, [](auto a, auto b) HWY_ATTR { return math::pow(a, b); },
    [](float a, float b) { return static_cast<float>(std::pow(double{a}, double{b})); });
  check(
    "hypot", 2, [](auto a, auto b) HWY_ATTR { return math::hypot(a, b); },
    [](float a, float b) { return std::hypot(a, b); });
  check(
    "atan2", 2, [](auto a, auto b) HWY_ATTR { return math::atan2(a, b); },
    [](float a, float b) { return std::atan2(a, b); });
  // Exact, whatever the quotient.
  check(
    "fmod", 0, [](auto a, auto b) HWY_ATTR { return math::fmod(a, b); },
    [](float a, float b) { return std::fmod(a, b); });
  check(
    "remainder", 0, [](auto a, auto b) HWY_ATTR { return math::remainder(a, b); },
    [](float a, float b) { return math::remainder(a, b); });
  check(
    "div_floor", 0, [](auto a, auto b) HWY_ATTR { return math::div_floor(a, b); },
    [](float a, float b) { return math::div_floor(a, b); });
  std::vector<float> powers;
  for (float v : y) powers.push_back(std::isfinite(v) ? std::round(v * 40) : 3);
  const std::vector<float> scaled = evaluate(x, powers, [](auto a, auto b) HWY_ATTR { return math::ldexp(a, b); });
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_TRUE(same_bits(scaled[i], math::ldexp(x[i], powers[i]))) << x[i] << " * 2^" << powers[i];
  const std::vector<double> wide_x(x.begin(), x.end()), wide_y(y.begin(), y.end());
  const std::vector<double> rest = evaluate(wide_x, wide_y, [](auto a, auto b) HWY_ATTR { return math::fmod(a, b); });
  const std::vector<double> angle = evaluate(wide_x, wide_y, [](auto a, auto b) HWY_ATTR { return math::atan2(a, b); });
  const std::vector<double> power = evaluate(wide_x, wide_y, [](auto a, auto b) HWY_ATTR { return math::pow(a, b); });
  for (size_t i = 0; i < x.size(); ++i) {
    const long double exact = std::pow(static_cast<long double>(wide_x[i]), static_cast<long double>(wide_y[i]));
    const double expected = std::pow(wide_x[i], wide_y[i]);
    const bool plain = std::isfinite(expected) && expected != 0;
    ASSERT_TRUE(plain ? ulps<double>(power[i], exact) <= 1 : same_bits(power[i], expected))
      << wide_x[i] << " pow " << wide_y[i] << " = " << power[i] << ", expected " << expected;
  }
  std::vector<double> bases, exponents;  // powers of whole numbers are exact
  for (int base = -40; base <= 40; ++base)
    for (int exponent = 0; std::pow(std::abs(base), exponent) < 0x1p53 && exponent < 53; ++exponent) {
      bases.push_back(base);
      exponents.push_back(exponent);
    }
  const std::vector<double> whole = evaluate(bases, exponents, [](auto a, auto b) HWY_ATTR { return math::pow(a, b); });
  for (size_t i = 0; i < bases.size(); ++i) ASSERT_EQ(whole[i], std::pow(bases[i], exponents[i])) << bases[i];
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_TRUE(same_bits(rest[i], std::fmod(wide_x[i], wide_y[i]))) << wide_x[i] << " fmod " << wide_y[i];
    const double expected = std::atan2(wide_x[i], wide_y[i]);
    const bool plain = std::isfinite(expected) && expected != 0;
    ASSERT_TRUE(plain ? ulps<double>(angle[i], expected) <= 4 : same_bits(angle[i], expected))
      << "atan2(" << wide_x[i] << ", " << wide_y[i] << ") = " << angle[i] << ", expected " << expected;
  }
  const auto nan = [](float a, float b) { return std::isnan(a) || std::isnan(b); };
  check(
    "max", 0, [](auto a, auto b) HWY_ATTR { return math::max(a, b); },
    [&](float a, float b) { return nan(a, b) ? NAN : (a < b ? b : a); });
  check(
    "min", 0, [](auto a, auto b) HWY_ATTR { return math::min(a, b); },
    [&](float a, float b) { return nan(a, b) ? NAN : (a > b ? b : a); });
}
#else
[[maybe_unused]] void AllFloats() {}
[[maybe_unused]] void Elementary() {}
[[maybe_unused]] void NearZeros() {}
[[maybe_unused]] void Special() {}
[[maybe_unused]] void Pairs() {}
#endif
}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace strata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {
// Runs a check for each SIMD target that this machine has; the checks assert value by value. How many there were.
#if HWY_TARGETS & HWY_AVX2
#define STRATA_TARGETS_CHECKED(function)                                                              \
  [] {                                                                                                \
    int count = 0;                                                                                    \
    if (__builtin_cpu_supports("avx512bw")) N_AVX3::function(), ++count;                              \
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) N_AVX2::function(), ++count; \
    return count;                                                                                     \
  }()
#else
#define STRATA_TARGETS_CHECKED(function) (HWY_STATIC_DISPATCH(function)(), 1)
#endif
TEST(Math, ElementaryFunctionsMatchTheCLibrary) { EXPECT_GE((STRATA_TARGETS_CHECKED(Elementary)), 1); }
TEST(Math, FloatFunctionsAreRightForAllKindsOfNumbers) { EXPECT_GE((STRATA_TARGETS_CHECKED(AllFloats)), 1); }
TEST(Math, SineAndCosineAreRightNearTheirZeros) { EXPECT_GE((STRATA_TARGETS_CHECKED(NearZeros)), 1); }
TEST(Math, SpecialFunctionsMatchTheCLibrary) { EXPECT_GE((STRATA_TARGETS_CHECKED(Special)), 1); }
TEST(Math, FunctionsOfTwoNumbersMatchTheCLibrary) { EXPECT_GE((STRATA_TARGETS_CHECKED(Pairs)), 1); }
}  // namespace
}  // namespace strata
#endif
