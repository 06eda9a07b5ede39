// mma.sync in every shape and type, against sums on the host with the fragment layouts of the PTX manual.
#include <fmt/core.h>

#include <cmath>
#include <functional>

#include "tests/cuda/vgpu/machine.h"
#include "tests/expect_error.h"

namespace strata::cuda::vgpu::testing {

namespace {

// One warp loads `na` registers of A, `nb` of B, `nc` of C from rows of 32, multiplies, and stores D.
std::string kernel(const std::string& instruction, int na, int nb, int nc, const char* type_c, const char* type_ab) {
  const bool f64 = std::string(type_ab) == "f64", wide_c = std::string(type_c) == "f64";
  std::string text = ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {\n";
  text += fmt::format(".reg .b{} %a<{}>, %b<{}>; .reg .b{} %c<{}>, %d<{}>; .reg .b64 %p; .reg .b32 %t; .reg .b64 %w;\n",
                      f64 ? 64 : 32, na, nb, wide_c ? 64 : 32, nc, nc);
  text += "mov.u32 %t, %tid.x;\n";
  const auto move = [&](const char* op, const char* name, int count, bool wide) {
    text += fmt::format("ld.param.u64 %p, [{}]; mul.wide.u32 %w, %t, {}; add.u64 %p, %p, %w;\n", name, wide ? 8 : 4);
    for (int r = 0; r < count; ++r) {
      const std::string at = fmt::format("[%p+{}]", r * 32 * (wide ? 8 : 4)), reg = fmt::format("%{}{}", name, r);
      text += std::string(op) == "ld" ? fmt::format("ld.global.b{} {}, {};\n", wide ? 64 : 32, reg, at)
                                      : fmt::format("st.global.b{} {}, {};\n", wide ? 64 : 32, at, reg);
    }
  };
  move("ld", "a", na, f64);
  move("ld", "b", nb, f64);
  move("ld", "c", nc, wide_c);
  const auto list = [](const char* name, int count) {
    std::string out = "{";
    for (int r = 0; r < count; ++r) out += fmt::format("{}%{}{}", r ? ", " : "", name, r);
    return out + "}";
  };
  text += fmt::format("{} {}, {}, {}, {};\n", instruction, list("d", nc), list("a", na), list("b", nb), list("c", nc));
  move("st", "d", nc, wide_c);
  return text + "ret; }";
}

double a_value(int row, int k) { return ((row * 7 + k * 3) % 17 - 8) / 4.0; }
double b_value(int k, int column) { return ((k * 5 + column * 11) % 13 - 6) / 2.0; }
double c_value(int row, int column) { return (row * 8 + column) % 9 - 4; }
double whole(double v) { return std::nearbyint(v * 4); }  // for the integers

uint32_t bits_of(const std::string& type, double v) {
  if (type == "f16") return float_to_half(static_cast<float>(v));
  if (type == "bf16") return float_to_bf16(static_cast<float>(v));
  if (type == "tf32") return std::bit_cast<uint32_t>(static_cast<float>(v));
  return static_cast<uint8_t>(static_cast<int8_t>(whole(v)));
}

// Elements of A and B in a register of 32 bits: 2 for 16 bits, 4 for bytes, 1 otherwise.
void check(const std::string& shape, int rows, int depth, const std::string& ab, const std::string& cd) {
  const bool f64 = ab == "f64", bytes = ab == "s8" || ab == "u8";
  const int per = f64 || ab == "tf32" ? 1 : bytes ? 4 : 2, halves = rows / 8;
  const int na = rows * depth / 32 / per, nb = depth * 8 / 32 / per, n = rows / 4, nc = cd == "f16" ? n / 2 : n;
  const std::string text = fmt::format("mma.sync.aligned.{}.row.col.{}.{}.{}.{}", shape, cd, ab, ab, cd);
  Machine m(kernel(text, na, nb, nc, cd.c_str(), ab.c_str()));
  const auto value_a = [&](int r, int k) { return bytes ? whole(a_value(r, k)) : a_value(r, k); };
  const auto value_b = [&](int k, int q) { return bytes ? whole(b_value(k, q)) : b_value(k, q); };
  // Lane 4g + t: rows g and g + 8, and `per` neighbours from column t * per on, 4 * per columns further for each pair.
  std::vector<uint32_t> a(static_cast<size_t>(na) * 32), b(static_cast<size_t>(nb) * 32),
    c(static_cast<size_t>(nc) * 32);
  std::vector<double> a64(a.size()), b64(b.size()), c64(c.size());
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int r = 0; r < na; ++r) {
      const auto at = static_cast<size_t>(r * 32 + lane);
      for (int e = 0; e < per; ++e) {
        const int row = g + 8 * (r % halves), k = r / halves * 4 * per + t * per + e;
        if (f64) a64[at] = a_value(row, k);
        else a[at] |= bits_of(ab, a_value(row, k)) << 32 / per * e % 32;
      }
    }
    for (int r = 0; r < nb; ++r) {
      const auto at = static_cast<size_t>(r * 32 + lane);
      for (int e = 0; e < per; ++e) {
        const int k = r * 4 * per + t * per + e;
        if (f64) b64[at] = b_value(k, g);
        else b[at] |= bits_of(ab, b_value(k, g)) << 32 / per * e % 32;
      }
    }
    for (int r = 0; r < n; ++r) {
      const double v = c_value(g + 8 * (r / 2), 2 * t + r % 2);
      const auto at = static_cast<size_t>((cd == "f16" ? r / 2 : r) * 32 + lane);
      if (cd == "f64") c64[at] = v;
      else if (cd == "f32") c[at] = std::bit_cast<uint32_t>(static_cast<float>(v));
      else if (cd == "s32") c[at] = static_cast<uint32_t>(static_cast<int32_t>(v));
      else c[at] |= static_cast<uint32_t>(float_to_half(static_cast<float>(v))) << 16 * (r % 2);
    }
  }
  const uint64_t pa = f64 ? m.put(a64) : m.put(a), pb = f64 ? m.put(b64) : m.put(b), pc = f64 ? m.put(c64) : m.put(c),
                 pd = f64 ? m.put(c64) : m.put(c);
  m.run("k", {{1, 1, 1}, {32, 1, 1}}, pa, pb, pc, pd);
  const auto d64 = f64 ? m.get<double>(pd, c.size()) : std::vector<double>();
  const auto d = m.get<uint32_t>(pd, c.size());
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < n; ++r) {
      const int row = lane / 4 + 8 * (r / 2), column = 2 * (lane % 4) + r % 2;
      double want = c_value(row, column);
      for (int k = 0; k < depth; ++k) want += value_a(row, k) * value_b(k, column);
      const auto at = static_cast<size_t>((cd == "f16" ? r / 2 : r) * 32 + lane);
      const double found = cd == "f64"   ? d64[at]
                           : cd == "f32" ? std::bit_cast<float>(d[at])
                           : cd == "s32" ? static_cast<int32_t>(d[at])
                                         : half_to_float(static_cast<uint16_t>(d[at] >> 16 * (r % 2)));
      const double expected =
        cd == "f16" ? half_to_float(float_to_half(static_cast<float>(want))) : want;  // exact otherwise
      ASSERT_EQ(found, expected) << text << " row " << row << " column " << column;
    }
}

TEST(Matrix, EveryShapeAndType) {
  for (const char* type : {"f16", "bf16"}) {
    check("m16n8k8", 16, 8, type, "f32");
    check("m16n8k16", 16, 16, type, "f32");
  }
  check("m16n8k8", 16, 8, "f16", "f16");
  check("m16n8k16", 16, 16, "f16", "f16");
  check("m16n8k4", 16, 4, "tf32", "f32");
  check("m16n8k8", 16, 8, "tf32", "f32");
  check("m8n8k16", 8, 16, "s8", "s32");
  check("m16n8k16", 16, 16, "s8", "s32");
  check("m16n8k32", 16, 32, "s8", "s32");
  check("m8n8k4", 8, 4, "f64", "f64");
  check("m16n8k4", 16, 4, "f64", "f64");
  check("m16n8k8", 16, 8, "f64", "f64");
  check("m16n8k16", 16, 16, "f64", "f64");
}

TEST(Matrix, OtherShapesAreRefused) {
  EXPECT_ERROR(NotImplemented, "unsupported instruction 'mma.sync.aligned.m16n8k64",
               check("m16n8k64", 16, 64, "s8", "s32"));
  EXPECT_ERROR(NotImplemented, "unsupported instruction", check("m16n8k16", 16, 16, "bf16", "f16"));
}

TEST(Convert, EightBitFloats) {
  // e4m3 (bias 7, no infinity, largest 448) and e5m2 (bias 15, largest 57344), both from float, nearest and saturated.
  const std::vector<float> v{0.0f,   -0.0f, 1.0f,         1.0625f, 1.1875f,  300.0f, 448.0f,
                             500.0f, -1e9f, 0.001953125f, 0.0009f, 57344.0f, NAN};
  const auto e4 = each<uint16_t>("cvt.rn.satfinite.e4m3x2.f32 %d, %a, %a;", {v});
  const auto e5 = each<uint16_t>("cvt.rn.satfinite.e5m2x2.f32 %d, %a, %a;", {v});
  const std::vector<uint8_t> want4{0x00, 0x80, 0x38, 0x38, 0x3a, 0x79, 0x7e, 0x7e, 0xfe, 0x01, 0x00, 0x7e, 0x7f};
  const std::vector<uint8_t> want5{0x00, 0x80, 0x3c, 0x3c, 0x3d, 0x5d, 0x5f, 0x60, 0xfb, 0x18, 0x13, 0x7b, 0x7f};
  for (size_t k = 0; k < v.size(); ++k) {
    EXPECT_EQ(e4[k], want4[k] | want4[k] << 8) << v[k];
    EXPECT_EQ(e5[k], want5[k] | want5[k] << 8) << v[k];
  }
  // Back through f16: all 256 codes.
  std::vector<uint16_t> codes(256);
  for (size_t k = 0; k < 256; ++k) codes[k] = static_cast<uint16_t>(k | (255 - k) << 8);
  const auto back = each<uint32_t>("cvt.rn.f16x2.e4m3x2 %d, %a;", {codes});
  for (size_t k = 0; k < 256; ++k)
    for (int h = 0; h < 2; ++h) {
      const auto code = static_cast<uint32_t>(codes[k] >> 8 * h & 0xff);
      const int exponent = static_cast<int>(code >> 3 & 15), mantissa = static_cast<int>(code & 7);
      double value = exponent ? std::ldexp(1 + mantissa / 8.0, exponent - 7) : std::ldexp(mantissa / 8.0, -6);
      if (code & 0x80) value = -value;
      const float found = half_to_float(static_cast<uint16_t>(back[k] >> 16 * h));
      if ((code & 0x7f) == 0x7f) EXPECT_TRUE(std::isnan(found)) << code;
      else EXPECT_EQ(found, value) << code;
    }
}

TEST(Atomic, NarrowAndWideTypes) {
  struct Case {
    const char *text, *type;
    uint64_t start, expected;  // after 32 lanes with the number in %x
  };
  const Case cases[] = {
    {"add.u64 %o, [%p], 3", "b64", uint64_t{1} << 40, (uint64_t{1} << 40) + 96},
    {"min.s64 %o, [%p], -5", "b64", 7, static_cast<uint64_t>(-5)},
    {"max.u64 %o, [%p], 9", "b64", 7, 9},
    {"xor.b64 %o, [%p], 1", "b64", 6, 6},
    {"exch.b64 %o, [%p], 11", "b64", 6, 11},
    {"cas.b64 %o, [%p], 6, 12", "b64", 6, 12},
    {"add.f64 %o, [%p], 0d3FE0000000000000", "b64", std::bit_cast<uint64_t>(1.0), std::bit_cast<uint64_t>(17.0)},
    {"cas.b16 %o, [%p], 5, 9", "b16", 5, 9},
    {"add.noftz.f16 %o, [%p], 0x3c00", "b16", 0x3c00, float_to_half(33)},
    {"add.noftz.bf16 %o, [%p], 0x3f80", "b16", 0x3f80, float_to_bf16(33)},
    {"add.noftz.f16x2 %o, [%p], 0x40003c00", "b32", 0, uint64_t{float_to_half(64)} << 16 | float_to_half(32)},
  };
  for (const Case& c : cases) {
    for (const char* op : {"atom", "red"}) {
      std::string text = c.text;
      if (std::string(op) == "red") {
        if (text.starts_with("exch") || text.starts_with("cas")) continue;  // red has none
        text.erase(text.find("%o, "), 4);
      }
      const size_t space = text.find('.');
      Machine m(
        fmt::format(".visible .entry k(.param .u64 p) {{ .reg .b64 %p; .reg .{} %o; ld.param.u64 %p, [p]; "
                    "{}.global.{}{}; ret; }}",
                    c.type, op, text.substr(0, space), text.substr(space)));
      const uint64_t p = m.put(std::vector<uint64_t>{c.start});
      m.run("k", {{1, 1, 1}, {32, 1, 1}}, p);
      EXPECT_EQ(m.get<uint64_t>(p, 1)[0], c.expected) << op << " " << text;
    }
  }
}

}  // namespace
}  // namespace strata::cuda::vgpu::testing
