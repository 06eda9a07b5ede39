// Integer and bit instructions against the host's arithmetic.
#include <fmt/core.h>

#include <bit>
#include <limits>

#include "tests/cuda/vgpu/machine.h"

namespace strata::cuda::vgpu::testing {

namespace {

template <class T> std::vector<T> interesting() {
  using L = std::numeric_limits<T>;
  return {T(0),
          T(1),
          T(2),
          T(7),
          T(-1),
          T(-2),
          T(100),
          T(12345),
          L::min(),
          L::max(),
          T(L::max() - 1),
          T(L::min() + 1),
          T(0x5a5a5a5a5a5a5a5a),
          T(255)};
}
template <class T> std::string type() { return fmt::format("{}{}", std::is_signed_v<T> ? 's' : 'u', 8 * sizeof(T)); }

template <class T> class Width : public ::testing::Test {};
using Widths = ::testing::Types<int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>;
TYPED_TEST_SUITE(Width, Widths);

template <class T, class F> void binary(const std::string& op, F f) {
  const auto [a, b] = pairs(interesting<T>());
  const auto d = each<T>(op + "." + type<T>() + " %d, %a, %b;", {a, b});
  for (size_t k = 0; k < a.size(); ++k)
    ASSERT_EQ(d[k], static_cast<T>(f(a[k], b[k]))) << op << " " << +a[k] << " " << +b[k];
}

TYPED_TEST(Width, Arithmetic) {
  using T = TypeParam;
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  binary<T>("add", [](Wide a, Wide b) { return a + b; });
  binary<T>("sub", [](Wide a, Wide b) { return a - b; });
  binary<T>("mul.lo", [](Wide a, Wide b) { return a * b; });
  binary<T>("mul.hi", [](Wide a, Wide b) { return (a * b) >> (8 * sizeof(T)); });
  binary<T>("min", [](T a, T b) { return std::min(a, b); });
  binary<T>("max", [](T a, T b) { return std::max(a, b); });
  binary<T>("div", [](Wide a, Wide b) { return b == 0 ? Wide(-1) : a / b; });
  binary<T>("rem", [](Wide a, Wide b) { return b == 0 ? a : a % b; });
}

TYPED_TEST(Width, MultiplyAdd) {
  using T = TypeParam;
  const auto [a, b] = pairs(interesting<T>());
  std::vector<T> c(a.size(), T(77));
  auto d = each<T>("mad.lo." + type<T>() + " %d, %a, %b, %c;", {a, b, c});
  for (size_t k = 0; k < a.size(); ++k)
    ASSERT_EQ(d[k], static_cast<T>(static_cast<unsigned __int128>(a[k]) * static_cast<unsigned __int128>(b[k]) + 77));
  d = each<T>("sad." + type<T>() + " %d, %a, %b, %c;", {a, b, c});
  for (size_t k = 0; k < a.size(); ++k)
    ASSERT_EQ(d[k], static_cast<T>(static_cast<__int128>(std::max(a[k], b[k])) - std::min(a[k], b[k]) + 77));
}

TYPED_TEST(Width, ShiftsClampTheirCount) {
  using T = TypeParam;
  std::vector<T> a;
  std::vector<uint32_t> n;
  for (T v : interesting<T>())
    for (uint32_t s : {0u, 1u, 7u, 15u, 16u, 31u, 32u, 63u, 64u, 1000u}) {
      a.push_back(v);
      n.push_back(s);
    }
  const auto left = each<T>(fmt::format("shl.b{} %d, %a, %b;", 8 * sizeof(T)), {a, n});
  const auto right = each<T>("shr." + type<T>() + " %d, %a, %b;", {a, n});
  for (size_t k = 0; k < a.size(); ++k) {
    const bool over = n[k] >= 8 * sizeof(T);
    ASSERT_EQ(left[k], over ? T(0) : static_cast<T>(static_cast<uint64_t>(a[k]) << n[k]));
    ASSERT_EQ(right[k], over ? (std::is_signed_v<T> && a[k] < 0 ? T(-1) : T(0)) : static_cast<T>(a[k] >> n[k]));
  }
}

TEST(Integer, WideProducts) {
  const auto [a, b] = pairs(interesting<int32_t>());
  const auto s = each<int64_t>("mul.wide.s32 %d, %a, %b;", {a, b});
  const auto u = each<uint64_t>("mul.wide.u32 %d, %a, %b;", {a, b});
  std::vector<int64_t> c(a.size(), -5);
  const auto m = each<int64_t>("mad.wide.s32 %d, %a, %b, %c;", {a, b, c});
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(s[k], int64_t{a[k]} * b[k]);
    ASSERT_EQ(u[k], uint64_t{static_cast<uint32_t>(a[k])} * static_cast<uint32_t>(b[k]));
    ASSERT_EQ(m[k], int64_t{a[k]} * b[k] - 5);
  }
}

TEST(Integer, SaturationAndTwentyFourBits) {
  const auto [a, b] = pairs(interesting<int32_t>());
  const auto add = each<int32_t>("add.sat.s32 %d, %a, %b;", {a, b});
  const auto sub = each<int32_t>("sub.sat.s32 %d, %a, %b;", {a, b});
  const auto low = each<int32_t>("mul24.lo.s32 %d, %a, %b;", {a, b});
  const auto high = each<int32_t>("mul24.hi.s32 %d, %a, %b;", {a, b});
  const auto clamp = [](int64_t v) {
    return static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(v, INT32_MIN), INT32_MAX));
  };
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(add[k], clamp(int64_t{a[k]} + b[k]));
    ASSERT_EQ(sub[k], clamp(int64_t{a[k]} - b[k]));
    const auto cut = [](int32_t v) { return int64_t{static_cast<int32_t>(static_cast<uint32_t>(v) << 8) >> 8}; };
    ASSERT_EQ(low[k], static_cast<int32_t>(cut(a[k]) * cut(b[k])));
    ASSERT_EQ(high[k], static_cast<int32_t>(cut(a[k]) * cut(b[k]) >> 16));
  }
}

TEST(Integer, CarriesGoThroughFourWords) {
  // 64-bit sums and differences from 32-bit halves, by the condition code.
  const auto [a, b] = pairs(interesting<uint64_t>());
  const std::string split = "mov.b64 {%w0, %w1}, %a; mov.b64 {%w2, %w3}, %b;";
  const auto sum =
    each<uint64_t>(split + "add.cc.u32 %w0, %w0, %w2; addc.u32 %w1, %w1, %w3; mov.b64 %d, {%w0, %w1};", {a, b});
  const auto difference =
    each<uint64_t>(split + "sub.cc.u32 %w0, %w0, %w2; subc.u32 %w1, %w1, %w3; mov.b64 %d, {%w0, %w1};", {a, b});
  const auto product = each<uint64_t>(split +
                                        "mul.lo.u32 %t, %w0, %w2; mul.hi.u32 %w1, %w0, %w2; mad.lo.cc.u32 %w0, %w0, "
                                        "%w2, %w3; madc.hi.u32 %w1, 0, 0, %w1; mov.b64 %d, {%w0, %w1};",
                                      {a, b});
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(sum[k], a[k] + b[k]);
    ASSERT_EQ(difference[k], a[k] - b[k]);
    ASSERT_EQ(product[k], (a[k] & 0xffffffff) * (b[k] & 0xffffffff) + (b[k] >> 32));
  }
}

TEST(Integer, DotProductsOfBytes) {
  const auto [a, b] = pairs(interesting<uint32_t>());
  std::vector<int32_t> c(a.size(), -1000);
  const auto ss = each<int32_t>("dp4a.s32.s32 %d, %a, %b, %c;", {a, b, c});
  const auto us = each<int32_t>("dp4a.u32.s32 %d, %a, %b, %c;", {a, b, c});
  const auto hi = each<int32_t>("dp2a.hi.s32.u32 %d, %a, %b, %c;", {a, b, c});
  for (size_t k = 0; k < a.size(); ++k) {
    int32_t s = -1000, u = -1000, h = -1000;
    for (int e = 0; e < 4; ++e) {
      s += int8_t(a[k] >> 8 * e) * int8_t(b[k] >> 8 * e);
      u += uint8_t(a[k] >> 8 * e) * int8_t(b[k] >> 8 * e);
    }
    for (int e = 0; e < 2; ++e) h += int16_t(a[k] >> 16 * e) * uint8_t(b[k] >> 8 * (e + 2));
    ASSERT_EQ(ss[k], s);
    ASSERT_EQ(us[k], u);
    ASSERT_EQ(hi[k], h);
  }
}

TEST(Bits, LogicAndCounts) {
  const auto [a, b] = pairs(interesting<uint32_t>());
  const auto lop = each<uint32_t>("lop3.b32 %d, %a, %b, 0x0F0F1234, 0xE8;", {a, b});  // the majority of three
  const auto xors = each<uint32_t>("xor.b32 %d, %a, %b; not.b32 %d, %d;", {a, b});
  const auto popc = each<uint32_t>("popc.b32 %d, %a;", {a});
  const auto clz = each<uint32_t>("clz.b32 %d, %a;", {a});
  const auto brev = each<uint32_t>("brev.b32 %d, %a;", {a});
  const auto find = each<uint32_t>("bfind.u32 %d, %a;", {a});
  const auto shift = each<uint32_t>("bfind.shiftamt.s32 %d, %a;", {a});
  for (size_t k = 0; k < a.size(); ++k) {
    const uint32_t c = 0x0f0f1234;
    ASSERT_EQ(lop[k], (a[k] & b[k]) | (a[k] & c) | (b[k] & c));
    ASSERT_EQ(xors[k], ~(a[k] ^ b[k]));
    ASSERT_EQ(popc[k], static_cast<uint32_t>(std::popcount(a[k])));
    ASSERT_EQ(clz[k], static_cast<uint32_t>(std::countl_zero(a[k])));
    uint32_t r = 0;
    for (int e = 0; e < 32; ++e) r |= (a[k] >> e & 1) << (31 - e);
    ASSERT_EQ(brev[k], r);
    ASSERT_EQ(find[k], a[k] ? 31u - static_cast<uint32_t>(std::countl_zero(a[k])) : 0xffffffffu);
    const uint32_t v = a[k] >> 31 ? ~a[k] : a[k];
    ASSERT_EQ(shift[k], v ? static_cast<uint32_t>(std::countl_zero(v)) : 0xffffffffu);
  }
}

TEST(Bits, FieldsFunnelsAndPermutes) {
  std::vector<uint32_t> a, p, n;
  for (uint32_t v : {0x80000001u, 0x12345678u, 0xfedcba98u, 0u, 0xffffffffu})
    for (uint32_t position : {0u, 3u, 16u, 31u, 40u})
      for (uint32_t length : {0u, 1u, 8u, 32u, 50u}) {
        a.push_back(v);
        p.push_back(position);
        n.push_back(length);
      }
  const auto u = each<uint32_t>("bfe.u32 %d, %a, %b, %c;", {a, p, n});
  const auto s = each<int32_t>("bfe.s32 %d, %a, %b, %c;", {a, p, n});
  const auto in = each<uint32_t>("bfi.b32 %d, %a, 0x0F0F0F0F, %b, %c;", {a, p, n});
  const auto left = each<uint32_t>("shf.l.wrap.b32 %d, %a, %b, %c;", {a, p, n});
  const auto right = each<uint32_t>("shf.r.clamp.b32 %d, %a, %b, %c;", {a, p, n});
  const auto bytes = each<uint32_t>("prmt.b32 %d, %a, %b, 0x8C41;", {a, p});
  for (size_t k = 0; k < a.size(); ++k) {
    const uint64_t mask = n[k] >= 32 ? 0xffffffffull : (1ull << n[k]) - 1;
    const uint64_t moved = p[k] >= 32 ? 0 : a[k] >> p[k];
    ASSERT_EQ(u[k], moved & mask);
    const uint32_t top = std::min(p[k] + n[k] - 1, 31u);
    const bool negative = n[k] && a[k] >> top & 1;
    uint32_t expected = static_cast<uint32_t>(moved & mask);
    const uint32_t given = p[k] >= 32 ? 0 : std::min(n[k], 32 - p[k]);
    if (negative && given < 32) expected |= 0xffffffffu << given;
    ASSERT_EQ(s[k], static_cast<int32_t>(expected)) << a[k] << " " << p[k] << " " << n[k];
    const uint32_t field = p[k] >= 32 ? 0 : static_cast<uint32_t>(mask << p[k]);
    ASSERT_EQ(in[k], (0x0f0f0f0fu & ~field) | (static_cast<uint32_t>(p[k] >= 32 ? 0 : uint64_t{a[k]} << p[k]) & field));
    const uint64_t both = uint64_t{p[k]} << 32 | a[k];
    ASSERT_EQ(left[k], static_cast<uint32_t>(both << (n[k] & 31) >> 32));
    ASSERT_EQ(right[k], static_cast<uint32_t>(both >> std::min(n[k], 32u)));
    const auto byte = [&](uint32_t e) { return static_cast<uint32_t>(both >> 8 * e & 0xff); };
    const auto sign = [&](uint32_t e) { return byte(e) & 0x80 ? 0xffu : 0u; };
    ASSERT_EQ(bytes[k], byte(1) | byte(4) << 8 | sign(4) << 16 | sign(0) << 24);
  }
}

}  // namespace
}  // namespace strata::cuda::vgpu::testing
