// Loads, stores, asynchronous copies and matrices of a warp; invalid accesses.
#include <fmt/core.h>

#include <cmath>
#include <numeric>

#include "tests/cuda/vgpu/machine.h"
#include "tests/expect_error.h"

namespace strata::cuda::vgpu::testing {

namespace {

TEST(MemoryAccess, NarrowLoadsExtendBySign) {
  const std::vector<int32_t> a{-1, 127, 128, 300, -32768, 70000};
  const std::string to = ".local .align 8 .b8 l[8]; st.local.b32 [l], %a;";
  const auto s8 = each<int32_t>(to + "ld.local.s8 %d, [l];", {a});
  const auto u8 = each<uint32_t>(to + "ld.local.u8 %d, [l];", {a});
  const auto s16 = each<int64_t>(to + "ld.local.s16 %d, [l];", {a});
  const auto generic = each<int32_t>(to + "mov.u64 %l0, l; cvta.local.u64 %l0, %l0; ld.b32 %d, [%l0];", {a});
  const auto pair =
    each<int32_t>(to + "st.local.v2.u16 [l+4], {1, 2}; ld.local.v2.b32 {%d, %w0}, [l]; add.s32 %d, %d, %w0;", {a});
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(s8[k], static_cast<int8_t>(a[k]));
    ASSERT_EQ(u8[k], static_cast<uint8_t>(a[k]));
    ASSERT_EQ(s16[k], static_cast<int16_t>(a[k]));
    ASSERT_EQ(generic[k], a[k]);
    ASSERT_EQ(pair[k], a[k] + 0x20001);
  }
}

TEST(MemoryAccess, FaultsNameThreadAndLine) {
  Machine m(
    ".visible .entry k(.param .u64 p, .param .u32 step) { .reg .b64 %p, %w; .reg .b32 %t, %s;\n"
    "ld.param.u64 %p, [p]; ld.param.u32 %s, [step]; mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, %s; add.u64 %p, %p, %w;\n"
    "st.global.u32 [%p], 1;\nret; }");
  const uint64_t p = m.put(std::vector<uint32_t>(32));
  Launch l{{1, 1, 1}, {33, 1, 1}};
  l.checks = kCheckMemory;
  EXPECT_ERROR(Runtime, "thread (32,0,0), PTX line 6: st.global.u32 [%p], 1", m.run("k", l, p, 4u));
  EXPECT_ERROR(Runtime, "not a multiple of 4", m.run("k", l, p, 2u));
  EXPECT_ERROR(Runtime, "not device memory", m.run("k", l, uint64_t{0}, 4u));
  l.block.x = 32;
  m.run("k", l, p, 4u);
  m.memory.release(p);
  EXPECT_ERROR(Runtime, "kernel 'k'", m.run("k", l, p, 4u));
}

TEST(MemoryAccess, AsyncCopiesArriveWhenWaitedFor) {
  Machine m(
    ".visible .entry k(.param .u64 in, .param .u64 out) { .shared .align 16 .b8 s[512]; .reg .b64 %i, %o, %w; .reg "
    ".b32 %t, %a, %v<3>;\n"
    "mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4; ld.param.u64 %i, [in]; add.u64 %i, %i, %w; ld.param.u64 %o, [out]; "
    "add.u64 %o, %o, %w;\n"
    "mov.u32 %a, s; mad.lo.u32 %a, %t, 4, %a; st.shared.u32 [%a], 0; st.shared.u32 [%a+128], 0; st.shared.u32 "
    "[%a+256], 7;\n"
    "cp.async.ca.shared.global [%a], [%i], 4; cp.async.commit_group;\n"
    "cp.async.ca.shared.global [%a+128], [%i+128], 4; cp.async.ca.shared.global [%a+256], [%i], 4, 0; "
    "cp.async.commit_group;\n"
    "cp.async.wait_group 1; ld.shared.u32 %v0, [%a]; ld.shared.u32 %v1, [%a+128]; st.global.u32 [%o], %v0; "
    "st.global.u32 [%o+128], %v1;\n"
    "cp.async.wait_all; ld.shared.u32 %v1, [%a+128]; ld.shared.u32 %v2, [%a+256]; st.global.u32 [%o+256], %v1; "
    "st.global.u32 [%o+384], %v2; ret; }");
  std::vector<uint32_t> in(64);
  std::iota(in.begin(), in.end(), 100u);
  const uint64_t i = m.put(in), o = m.put(std::vector<uint32_t>(128, 9));
  m.run("k", {{1, 1, 1}, {32, 1, 1}}, i, o);
  const auto d = m.get<uint32_t>(o, 128);
  for (uint32_t k = 0; k < 32; ++k) {
    ASSERT_EQ(d[k], 100 + k);
    ASSERT_EQ(d[32 + k], 0u);  // the second group is still pending
    ASSERT_EQ(d[64 + k], 132 + k);
    ASSERT_EQ(d[96 + k], 0u);  // no bytes given: zeros
  }
}

// D = A * B by ldmatrix and mma, against the definition, on small integers whose sums are exact.
TEST(Matrix, ProductsOfHalfTiles) {
  for (bool transposed : {false, true}) {
    Machine m(fmt::format(
      ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d) {{ .shared .align 16 .b8 sa[512]; .shared .align "
      "16 .b8 sb[256];\n"
      ".reg .b64 %p, %q, %o, %w; .reg .b32 %t, %x, %y, %r<8>, %c<4>, %g, %h;\n"
      "mov.u32 %t, %tid.x; ld.param.u64 %p, [a]; ld.param.u64 %q, [b]; ld.param.u64 %o, [d];\n"
      "mul.wide.u32 %w, %t, 16; add.u64 %p, %p, %w; ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%p]; mov.u32 %x, sa; "
      "mad.lo.u32 %x, %t, 16, %x; st.shared.v4.b32 [%x], {{%r0, %r1, %r2, %r3}};\n"
      "mul.wide.u32 %w, %t, 8; add.u64 %q, %q, %w; ld.global.v2.b32 {{%r0, %r1}}, [%q]; mov.u32 %x, sb; mad.lo.u32 %x, "
      "%t, 8, %x; st.shared.v2.b32 [%x], {{%r0, %r1}}; bar.sync 0;\n"
      "and.b32 %g, %t, 15; shr.u32 %h, %t, 4; mov.u32 %x, sa; mad.lo.u32 %x, %g, 32, %x; mad.lo.u32 %x, %h, 16, %x;\n"
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r0, %r1, %r2, %r3}}, [%x];\n"
      "mov.u32 %y, sb; {} ldmatrix.sync.aligned.m8n8.x2{}.shared.b16 {{%r4, %r5}}, [%y];\n"
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%c0, %c1, %c2, %c3}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, "
      "{{0f3F800000, 0f3F800000, 0f3F800000, 0f3F800000}};\n"
      "shr.u32 %g, %t, 2; and.b32 %h, %t, 3; mad.lo.u32 %g, %g, 4, %h; mul.wide.u32 %w, %g, 8; add.u64 %o, %o, %w;\n"
      "st.global.v2.b32 [%o], {{%c0, %c1}}; st.global.v2.b32 [%o+256], {{%c2, %c3}}; ret; }}",
      transposed ? "and.b32 %g, %t, 15; mad.lo.u32 %y, %g, 16, %y;"
                 : "and.b32 %g, %t, 7; shr.u32 %h, %t, 3; and.b32 %h, %h, 1; mad.lo.u32 %y, %g, 32, %y; mad.lo.u32 %y, "
                   "%h, 16, %y;",
      transposed ? ".trans" : ""));
    const auto half = [](int v) {  // small whole numbers
      if (v == 0) return uint16_t{0};
      const int e = static_cast<int>(std::floor(std::log2(std::abs(v))));
      return static_cast<uint16_t>((v < 0 ? 0x8000 : 0) | (e + 15) << 10 | ((std::abs(v) << (10 - e)) & 0x3ff));
    };
    std::vector<uint16_t> a(256), b(128);
    const auto av = [](int r, int c) { return (r * 7 + c * 3) % 11 - 5; };
    const auto bv = [](int k, int n) { return (k * 5 + n * 2) % 9 - 4; };
    for (int r = 0; r < 16; ++r)
      for (int c = 0; c < 16; ++c) a.at(static_cast<size_t>(r) * 16 + static_cast<size_t>(c)) = half(av(r, c));
    for (int k = 0; k < 16; ++k)
      for (int n = 0; n < 8; ++n) b[static_cast<size_t>(transposed ? k * 8 + n : n * 16 + k)] = half(bv(k, n));
    const uint64_t pa = m.put(a), pb = m.put(b), pd = m.put(std::vector<float>(128));
    m.run("k", {{1, 1, 1}, {32, 1, 1}}, pa, pb, pd);
    const auto d = m.get<float>(pd, 128);
    for (int r = 0; r < 16; ++r)
      for (int n = 0; n < 8; ++n) {
        int sum = 1;
        for (int k = 0; k < 16; ++k) sum += av(r, k) * bv(k, n);
        ASSERT_EQ(d[static_cast<size_t>(r * 8 + n)], sum) << r << " " << n << " " << transposed;
      }
  }
}

TEST(Parser, ErrorsNameLineAndText) {
  const auto load = [](const std::string& body) { Machine m(body); };
  EXPECT_ERROR(Value, "PTX line 5", load(".visible .entry k() {\n add.s32 %r1 %r2;\n}"));
  EXPECT_ERROR(Value, "does not end", load(".visible .entry k() {\n ret;"));
  EXPECT_ERROR(Value, "unknown directive '.frob'", load(".frob k;"));
  EXPECT_ERROR(Value, "is too large", load(".global .b8 x[99999999999];"));
  Memory memory(1 << 20);
  EXPECT_ERROR(Value, "no .version", Module("", memory));
  const auto kernel = [](const std::string& text) {
    Machine m(".visible .entry k() { .reg .b32 %r<3>; .reg .b64 %d; .reg .pred %p;\n" + text + "\n}");
    m.module.kernel("k");
  };
  EXPECT_ERROR(NotImplemented, "PTX line 5: unsupported instruction 'tcgen05.commit'", kernel("tcgen05.commit;"));
  EXPECT_ERROR(NotImplemented, "modifier '.frob'", kernel("add.frob.s32 %r0, %r1, %r2;"));
  EXPECT_ERROR(Value, "'%q' is not declared", kernel("add.s32 %r0, %q, 1;"));
  EXPECT_ERROR(Value, "does not hold .s32", kernel("add.s32 %d, %r0, 1;"));
  EXPECT_ERROR(Value, "no label 'nowhere'", kernel("bra nowhere;"));
  EXPECT_ERROR(Value, "2 operands instead of 3", kernel("add.s32 %r0, %r1;"));
}

TEST(Launch, LimitsAndDeadlocksAreErrors) {
  Machine m(
    ".visible .entry k() .maxntid 64, 1, 1 { .reg .b32 %t; .reg .pred %p; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 32;\n"
    "@%p bra a; bar.sync 1; bra b;\na: bar.sync 2;\nb: ret; }\n"
    ".visible .entry spin() { l: bra l; }");
  EXPECT_ERROR(Value, "the kernel allows 64", m.run("k", {{1, 1, 1}, {128, 1, 1}}));
  EXPECT_ERROR(Value, "must not be empty", m.run("k", {{0, 1, 1}, {32, 1, 1}}));
  EXPECT_ERROR(Runtime, "never reach", m.run("k", {{1, 1, 1}, {64, 1, 1}}));
  Launch l{{1, 1, 1}, {32, 1, 1}};
  l.instruction_limit = 1000000;
  EXPECT_ERROR(Runtime, "more than the limit", m.run("spin", l));
}

}  // namespace
}  // namespace strata::cuda::vgpu::testing
