// Compiled scalar code, compared with the host: mathematical functions, integers, 16-bit floats, control flow.
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "tests/cuda/vgpu/machine.h"
#include "tests/expect_error.h"

namespace strata::cuda::vgpu::testing {

namespace {

template <class T> std::vector<T> uniform(size_t n, double low, double high, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> d(low, high);
  std::vector<T> v(n);
  for (auto& x : v) x = static_cast<T>(d(random));
  return v;
}

using Wide = long double;
Wide erfinv(Wide y) {
  Wide x = 0;
  for (int k = 0; k < 60; ++k) x -= (std::erf(x) - y) / (2 / std::sqrt(std::acos(Wide(-1))) * std::exp(-x * x));
  return x;
}

// The function, and the errors in ulp that CUDA documents for float and double.
template <class T> struct Row {
  std::function<Wide(T, T)> reference;
  double ulp32, ulp64;
};
template <class T> std::vector<Row<T>> functions() {
  return {
    {[](T x, T) { return std::exp(Wide(x)); }, 2, 1},
    {[](T x, T) { return std::log(Wide(x)); }, 1, 1},
    {[](T x, T y) { return std::pow(Wide(x), Wide(y)); }, 4, 2},
    {[](T x, T) { return std::sin(Wide(T(x * T(1e6)))); }, 2, 2},
    {[](T x, T) { return std::cos(Wide(T(x * T(1e6)))); }, 2, 2},
    {[](T x, T) { return std::tan(Wide(x)); }, 4, 2},
    {[](T x, T) { return std::lgamma(Wide(x)); }, 6, 4},
    {[](T x, T) { return std::tgamma(Wide(x)); }, 5, 10},
    {[](T x, T) { return std::erf(Wide(x)); }, 2, 2},
    {[](T x, T) { return std::erfc(Wide(x)); }, 4, 5},
    {[](T x, T) { return std::tanh(Wide(x)); }, 2, 2},
    {[](T x, T) { return std::expm1(Wide(x)); }, 1, 1},
    {[](T x, T) { return std::log1p(Wide(x)); }, 1, 1},
    {[](T x, T) { return std::cbrt(Wide(x)); }, 1, 1},
    {[](T x, T y) { return std::fmod(Wide(T(x * T(100))), Wide(y)); }, 0, 0},
    {[](T x, T y) { return std::atan2(Wide(y), Wide(x)); }, 3, 2},
    {[](T x, T) { return std::asinh(Wide(x)); }, 3, 3},
    {[](T, T y) { return erfinv(Wide(T(y / T(8)))); }, 2, 5},
    {[](T x, T) { return std::exp2(Wide(x)); }, 2, 1},
    {[](T x, T) { return std::log10(Wide(x)); }, 2, 1},
    {[](T x, T) { return Wide(std::sqrt(x)); }, 0, 0},
    {[](T x, T) { return 1 / std::sqrt(Wide(x)); }, 2, 1},
    {[](T x, T y) { return Wide(T(x / y)); }, 0, 0},
    {[](T x, T) { return Wide(std::rint(T(x * T(10)))); }, 0, 0},
    {[](T x, T) { return Wide(std::floor(T(-x * T(10)))); }, 0, 0},
    {[](T x, T y) { return std::hypot(Wide(x), Wide(y)); }, 3, 2},
    {[](T, T y) { return std::acos(Wide(T(y / T(8)))); }, 2, 2},
    {[](T x, T) { return std::sinh(Wide(x)); }, 3, 2},
    {[](T x, T) { return std::cosh(Wide(x)); }, 2, 1},
    {[](T x, T y) { return std::erfc(-Wide(T(y - x)) / std::sqrt(Wide(2))) / 2; }, 5, 5},
    {[](T x, T y) { return std::remainder(Wide(T(x * T(100))), Wide(y)); }, 0, 0},
    {[](T x, T y) { return Wide(T(std::ldexp(x, 5) + T(std::ilogb(y)))); }, 0, 0},
  };
}

template <class T> void check_functions(const char* kernel) {
  constexpr int kCount = 600;
  Machine m(compiled("math.75"));
  const auto x = uniform<T>(kCount, 0.05, 8, 1), y = uniform<T>(kCount, -7, 7, 2);
  const auto rows = functions<T>();
  const auto count = static_cast<int>(rows.size());
  const uint64_t px = m.put(x), py = m.put(y), out = m.put(std::vector<T>(kCount * rows.size()));
  m.over(kernel, kCount, px, py, out, kCount, count);
  const auto got = m.get<T>(out, kCount * rows.size());
  for (size_t f = 0; f < rows.size(); ++f)
    for (size_t i = 0; i < kCount; ++i) {
      const Wide want = rows[f].reference(x[i], y[i]), found = got[f * kCount + i];
      const T near = std::fabs(static_cast<T>(want));
      const Wide ulp = std::nextafter(near, std::numeric_limits<T>::infinity()) - near;
      const double allowed = (sizeof(T) == 4 ? rows[f].ulp32 : rows[f].ulp64) + 0.5;
      ASSERT_LE(std::fabs(found - want), allowed * ulp)
        << "function " << f << " of " << x[i] << ", " << y[i] << ": " << found << ", expected " << want;
    }
}

TEST(Compiled, MathFunctionsOfFloat) { check_functions<float>("math_f32"); }
TEST(Compiled, MathFunctionsOfDouble) { check_functions<double>("math_f64"); }

TEST(Compiled, FastMathAndDirectedRounding) {
  constexpr int kCount = 256;
  Machine m(compiled("math.75"));
  const auto x = uniform<float>(kCount, 0.1, 3, 3);
  const uint64_t in = m.put(x), out = m.put(std::vector<float>(12 * kCount));
  m.over("math_fast", kCount, in, out, kCount);
  const auto got = m.get<float>(out, 12 * kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const auto at = [&](size_t f) { return got[f * kCount + i]; };
    const double v = x[i];
    EXPECT_NEAR(at(0), std::exp(v), std::exp(v) * 1e-6);
    EXPECT_NEAR(at(1), std::log(v), 5e-7);
    EXPECT_NEAR(at(2), std::sin(v), 1e-6);
    EXPECT_NEAR(at(3), std::cos(v), 1e-6);
    EXPECT_NEAR(at(4), 1 / v, 2.5e-7 / v);
    EXPECT_EQ(at(5), static_cast<float>(1 / std::sqrt(v)));
    const auto below = [](double exact) {  // the largest float that is not above
      const auto f = static_cast<float>(exact);
      return f > exact ? std::nextafter(f, -INFINITY) : f;
    };
    EXPECT_EQ(at(6), below(v * v + static_cast<double>(0.1f)));
    EXPECT_EQ(at(7), std::nextafter(x[i], INFINITY));
    EXPECT_EQ(at(8), below(1 / v));
    EXPECT_EQ(at(9), below(std::sqrt(v)));
    EXPECT_EQ(at(10), std::min(std::max(x[i] - 1.0f, 0.0f), 1.0f));
    EXPECT_NEAR(at(11), std::pow(10.0, v), std::pow(10.0, v) * 2.5e-7);
  }
}

std::vector<int64_t> spread(size_t n, uint64_t seed) {  // all magnitudes, both signs, no zero
  std::mt19937_64 random(seed);
  std::vector<int64_t> v(n);
  for (auto& x : v) x = std::max<int64_t>(static_cast<int64_t>(random() >> random() % 64), 1) * (random() % 2 ? 1 : -1);
  return v;
}

TEST(Compiled, Integers64) {
  constexpr int kCount = 500;
  Machine m(compiled("integer.75"));
  const auto a = spread(kCount, 4), b = spread(kCount, 5);
  const uint64_t pa = m.put(a), pb = m.put(b), out = m.put(std::vector<uint64_t>(16 * kCount));
  m.over("integer_64", kCount, pa, pb, out, kCount);
  const auto got = m.get<uint64_t>(out, 16 * kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const int64_t x = a[i], y = b[i];
    const auto ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
    uint64_t reversed = 0;
    for (int k = 0; k < 64; ++k) reversed |= (ux >> k & 1) << (63 - k);
    const std::vector<uint64_t> want{
      static_cast<uint64_t>(x / y),
      static_cast<uint64_t>(x % y),
      ux / uy,
      ux % uy,
      static_cast<uint64_t>(static_cast<__int128>(x) * y >> 64),
      static_cast<uint64_t>(static_cast<unsigned __int128>(ux) * uy >> 64),
      static_cast<uint64_t>(std::popcount(ux)),
      static_cast<uint64_t>(std::countl_zero(ux)),
      reversed,
      static_cast<uint64_t>(std::countr_zero(ux) + 1),
      static_cast<uint64_t>(std::min(x, y)),
      std::max(ux, uy),
      static_cast<uint64_t>(x >> (uy & 63)),
      ux << (uy & 63),
      static_cast<uint64_t>(x / 7 + x % 1000003),
      static_cast<uint64_t>(std::llabs(x) ^ (x < y ? 1 : 0)),
    };
    for (size_t f = 0; f < want.size(); ++f) ASSERT_EQ(got[i * 16 + f], want[f]) << f << " of " << x << ", " << y;
  }
}

TEST(Compiled, Integers32) {
  constexpr int kCount = 500;
  Machine m(compiled("integer.75"));
  std::vector<int32_t> a, b;
  for (int64_t v : spread(kCount, 6)) a.push_back(static_cast<int32_t>(v >> 7) | 1);
  for (int64_t v : spread(kCount, 7)) b.push_back(static_cast<int32_t>(v % 70000) | 1);
  const uint64_t pa = m.put(a), pb = m.put(b), out = m.put(std::vector<uint32_t>(20 * kCount));
  m.over("integer_32", kCount, pa, pb, out, kCount);
  const auto got = m.get<uint32_t>(out, 20 * kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const int32_t x = a[i], y = b[i];
    const auto ux = static_cast<uint32_t>(x), uy = static_cast<uint32_t>(y);
    const uint64_t both = static_cast<uint64_t>(uy) << 32 | ux;
    const auto byte = [&](uint32_t k) { return static_cast<uint32_t>(both >> 8 * k & 255); };
    uint32_t dot = 5, reversed = 0;
    for (int k = 0; k < 4; ++k)
      dot += static_cast<uint32_t>(static_cast<int8_t>(ux >> 8 * k) * static_cast<int8_t>(uy >> 8 * k));
    for (int k = 0; k < 32; ++k) reversed |= (ux >> k & 1) << (31 - k);
    const auto half = [&](int k) {
      const auto p = static_cast<int16_t>(ux >> 16 * k), q = static_cast<int16_t>(uy >> 16 * k);
      return (static_cast<uint32_t>(static_cast<uint16_t>(p + q)) ^ static_cast<uint16_t>(std::max(p, q))) << 16 * k;
    };
    const std::vector<uint32_t> want{
      static_cast<uint32_t>(x / y),
      static_cast<uint32_t>(x % y),
      ux / uy,
      static_cast<uint32_t>(int64_t{x} * y >> 32),
      static_cast<uint32_t>(uint64_t{ux} * uy >> 32),
      byte(5) | byte(1) << 8 | byte(7) << 16 | byte(3) << 24,
      static_cast<uint32_t>(both << 11 >> 32),
      static_cast<uint32_t>(both >> (x & 31)),
      dot,
      static_cast<uint32_t>(std::llabs(int64_t{x} - y)) + 3,
      ux >> 5 & 0x3ff,
      static_cast<uint32_t>(static_cast<int32_t>(ux << 9) >> 20),
      reversed,
      static_cast<uint32_t>(std::countl_zero(ux) + std::countr_zero(uy) + 1 + std::popcount(uy)),
      static_cast<uint32_t>(static_cast<int16_t>(x)) * (uy & 255),
      (ux & uy) | ((~ux & 0x0f0f0f0fu) ^ uy),
      static_cast<uint32_t>((int64_t{x} + y) >> 1),
      static_cast<uint32_t>(static_cast<int8_t>(x) / 3),
      (ux + uy) & 0xffff,
      half(0) | half(1),
    };
    for (size_t f = 0; f < want.size(); ++f) ASSERT_EQ(got[i * 20 + f], want[f]) << f << " of " << x << ", " << y;
  }
}

TEST(Compiled, CastsBetweenNumbers) {
  constexpr int kCount = 400;
  Machine m(compiled("integer.75"));
  const auto a = uniform<double>(kCount, 0, 30000, 8);
  const uint64_t in = m.put(a), out = m.put(std::vector<uint64_t>(14 * kCount));
  m.over("integer_cast", kCount, in, out, kCount);
  const auto got = m.get<uint64_t>(out, 14 * kCount);
  const auto bits = [](float f) { return uint64_t{std::bit_cast<uint32_t>(f)}; };
  for (size_t i = 0; i < kCount; ++i) {
    const double x = a[i];
    const auto f = static_cast<float>(x);
    const auto scaled = static_cast<int64_t>(x * 1e9);
    auto toward_zero = static_cast<float>(scaled);
    if (static_cast<double>(toward_zero) > static_cast<double>(scaled)) toward_zero = std::nextafter(toward_zero, 0.0f);
    const float up = static_cast<double>(f) < x ? std::nextafter(f, INFINITY) : f;
    const std::vector<uint64_t> want{static_cast<uint64_t>(x),
                                     static_cast<uint64_t>(f),
                                     static_cast<uint64_t>(f),
                                     static_cast<uint64_t>(x),
                                     static_cast<uint64_t>(std::nearbyint(x)),
                                     static_cast<uint64_t>(std::floor(x)),
                                     static_cast<uint64_t>(std::ceil(f)),
                                     std::bit_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(x * 1e3))),
                                     bits(static_cast<float>(static_cast<int64_t>(x * 1e6))),
                                     bits(toward_zero),
                                     bits(up),
                                     static_cast<uint64_t>(static_cast<int16_t>(static_cast<int32_t>(f))),
                                     static_cast<uint64_t>(static_cast<uint8_t>(static_cast<int32_t>(f))),
                                     bits(std::trunc(f) + std::round(f))};
    for (size_t k = 0; k < want.size(); ++k) ASSERT_EQ(got[i * 14 + k], want[k]) << k << " of " << x;
  }
}

// To the nearest number of `bits` bits, ties to even, no smaller than 2^least apart.
double rounded(double v, int bits, int least) {
  if (v == 0) return v;
  int exponent = 0;
  std::frexp(v, &exponent);
  const int step = std::max(exponent - bits, least);
  return std::ldexp(std::nearbyint(std::ldexp(v, -step)), step);
}

void check_singles(const char* module, const char* kernel, int bits, int least) {
  constexpr int kCount = 300;
  Machine m(compiled(module));
  const auto a = uniform<float>(kCount, -20, 20, 9), b = uniform<float>(kCount, 0.2, 4, 10);
  const uint64_t pa = m.put(a), pb = m.put(b), out = m.put(std::vector<float>(13 * kCount));
  m.over(kernel, kCount, pa, pb, out, kCount);
  const auto got = m.get<float>(out, 13 * kCount);
  const auto r = [&](double v) { return rounded(v, bits, least); };
  for (size_t i = 0; i < kCount; ++i) {
    const double x = r(a[i]), y = r(b[i]);
    const double want[] = {r(x + y),
                           r(x - y),
                           r(x * y),
                           r(x / y),
                           r(x * y + x),
                           std::max(x, y),
                           std::min(x, y),
                           x < y ? 1. : 0,
                           r(std::exp(y)),
                           r(std::sqrt(std::fabs(x))),
                           -x,
                           std::trunc(x) + r(static_cast<double>(i)),
                           std::floor(x)};
    for (size_t f = 0; f < std::size(want); ++f) {
      const double slack = f == 8 ? std::ldexp(std::fabs(want[f]), 1 - bits) : 0;  // hexp: an ulp
      ASSERT_NEAR(got[f * kCount + i], want[f], slack) << f << " of " << x << ", " << y;
    }
  }
}
TEST(Compiled, HalfArithmetic) {
  for (const char* module : {"half.80", "half.90"}) check_singles(module, "half_singles", 11, -24);
}
TEST(Compiled, BrainArithmetic) {
  for (const char* module : {"half.80", "half.90"}) check_singles(module, "brain_singles", 8, -133);
}

template <class ToFloat, class FromFloat>
void check_pairs(const char* module, const char* kernel, int bits, int least, const ToFloat& wide,
                 const FromFloat& narrow) {
  constexpr size_t kCount = 256;
  Machine m(compiled(module));
  const auto a = uniform<float>(2 * kCount, -4, 4, 11), b = uniform<float>(2 * kCount, -4, 4, 12);
  std::vector<uint16_t> ha, hb;
  for (float v : a) ha.push_back(narrow(v));
  for (float v : b) hb.push_back(narrow(v));
  const uint64_t pa = m.put(ha), pb = m.put(hb), out = m.put(std::vector<uint16_t>(8 * kCount));
  m.over(kernel, static_cast<int>(kCount), pa, pb, out, static_cast<int>(kCount));
  const auto got = m.get<uint16_t>(out, 8 * kCount);
  const auto r = [&](double v) { return rounded(v, bits, least); };
  for (size_t i = 0; i < 2 * kCount; ++i) {
    const double x = wide(ha[i]), y = wide(hb[i]), swapped = wide(hb[i ^ 1]);
    const double want[] = {r(x * y + r(x + r(y * y))), std::max(x, swapped),
                           i % 2 ? y : r(static_cast<float>(x) * 3.0f), std::max(r(x * y + y), 0.0)};
    for (size_t f = 0; f < 4; ++f) ASSERT_EQ(wide(got[f * 2 * kCount + i]), want[f]) << f << " of " << x << ", " << y;
  }
}
TEST(Compiled, PairsOfHalvesAndBrains) {
  for (const char* module : {"half.80", "half.90"}) {
    check_pairs(module, "half_pairs", 11, -24, half_to_float, float_to_half);
    check_pairs(module, "brain_pairs", 8, -133, bf16_to_float, float_to_bf16);
  }
}

TEST(Compiled, CallsSwitchesAndLocalArrays) {
  constexpr int kCount = 300;
  Machine m(compiled("control.75"));
  const auto x = uniform<float>(kCount, -2, 2, 13);
  const uint64_t px = m.put(x), out = m.put(std::vector<double>(kCount));
  m.over("calls", kCount, px, out, kCount);
  const auto got = m.get<double>(out, kCount);
  const float weights[] = {0.5f, -1.0f, 2.0f, 4.0f, 0.25f};
  for (int i = 0; i < kCount; ++i) {
    float p = 0;
    for (int k = 0; k <= i % 5; ++k) p = std::fma(p, x[static_cast<size_t>(i)], weights[k]);
    ASSERT_EQ(got[static_cast<size_t>(i)], (static_cast<double>(p) + x[static_cast<size_t>(i)]) * (i + 2)) << i;
  }

  std::vector<int32_t> in(kCount);
  std::iota(in.begin(), in.end(), -50);
  for (auto& v : in) v = v * 7919 + (v & 3);
  const uint64_t pin = m.put(in), sorted = m.put(std::vector<int32_t>(kCount)),
                 chosen = m.put(std::vector<int32_t>(kCount));
  m.over("switches", kCount, pin, chosen, kCount);
  const auto picked = m.get<int32_t>(chosen, kCount);
  const int order[] = {3, 1, 4, 1, 5, 0, 2, 6};
  for (size_t i = 0; i < kCount; ++i) {
    uint32_t v = static_cast<uint32_t>(in[i]), r = 0;
    for (int round = 0; round < 4; ++round) {
      const uint32_t c = v & 15;
      if (c == 12) break;
      if (c == 0) r += 7;
      else if (c == 1) r ^= v;
      else if (c == 2) r = r * 3 + 1 - 11;
      else if (c == 3) r -= 11;
      else if (c == 5) r += static_cast<uint32_t>(std::popcount(v));
      else if (c == 6) r <<= 1;
      else if (c == 7) r = ~r;
      else if (c == 8) r += static_cast<uint32_t>(static_cast<int32_t>(v) / 3);
      else if (c == 9) r ^= 0x55;
      else r += static_cast<uint32_t>(order[v & 7]);
      v = v * 1103515245u + 12345u;
    }
    ASSERT_EQ(picked[i], static_cast<int32_t>(r)) << i;
  }

  m.run("local_arrays", {{5, 1, 1}, {64, 1, 1}}, pin, sorted, kCount);
  const auto gathered = m.get<int32_t>(sorted, kCount);
  const auto array = [&](int i) {
    std::vector<int32_t> a(16);
    for (int k = 0; k < 16; ++k)
      a[static_cast<size_t>(k)] = i < kCount ? in[static_cast<size_t>((i + k * 37) % kCount)] : k;
    std::sort(a.begin(), a.end());
    return a;
  };
  for (int i = 0; i < kCount; ++i) {
    const auto at = static_cast<size_t>(i * 5 & 15);
    const int other = i / 64 * 64 + static_cast<int>(at);
    const int want = i & 2 ? in[at] : i & 1 ? array(i)[at] : array(other)[static_cast<size_t>(other & 15)];
    ASSERT_EQ(gathered[static_cast<size_t>(i)], want + 3) << i;
  }
}

TEST(Compiled, StructuresByValueAndAsserts) {
  struct Shape {
    int dims;
    int64_t size[8], stride[8];
  };
  Machine m(compiled("control.75"));
  std::vector<float> in(5 * 6 * 7);
  std::iota(in.begin(), in.end(), 0.0f);
  const Shape shape{3, {7, 5, 6}, {1, 42, 7}};  // 5 x 6 x 7, its last dimension first
  const auto n = static_cast<int64_t>(in.size());
  const uint64_t pin = m.put(in), out = m.put(in);
  m.run("strided_copy", {{2, 1, 1}, {64, 1, 1}}, pin, out, shape, n);
  const auto got = m.get<float>(out, in.size());
  size_t k = 0;
  for (size_t c = 0; c < 7; ++c)
    for (size_t a = 0; a < 5; ++a)
      for (size_t b = 0; b < 6; ++b) ASSERT_EQ(got[k++], in[a * 42 + b * 7 + c]);

  const uint64_t indices = m.put(std::vector<int32_t>{1, 2, -3, 4});
  try {
    m.over("asserts", 4, indices, 4);
    FAIL() << "the assertion was not seen";
  } catch (const Fault& f) {
    EXPECT_EQ(f.code(), kAssert);
    const std::string what = f.what();
    EXPECT_NE(what.find("the index must not be negative"), std::string::npos) << what;
    EXPECT_NE(what.find("control.cu:"), std::string::npos) << what;
    EXPECT_NE(what.find("thread (2,0,0)"), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace strata::cuda::vgpu::testing
