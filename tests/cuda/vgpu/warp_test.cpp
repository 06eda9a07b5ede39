// Communication between lanes: shuffles, votes, divergence, barriers, atomics, and the same result for any thread
// count.
#include <fmt/core.h>

#include <bit>
#include <numeric>

#include "base/parallel.h"
#include "tests/cuda/vgpu/machine.h"
#include "tests/expect_error.h"

namespace strata::cuda::vgpu::testing {

namespace {

std::vector<uint32_t> lanes() {
  std::vector<uint32_t> v(64);
  for (size_t k = 0; k < v.size(); ++k) v[k] = static_cast<uint32_t>(k * k + 3);
  return v;
}

TEST(Exchange, Shuffles) {
  const auto a = lanes();
  const auto up = each<uint32_t>("shfl.sync.up.b32 %d|%p, %a, 3, 0, -1; @!%p mov.u32 %d, 0;", {a});
  const auto down = each<uint32_t>("shfl.sync.down.b32 %d, %a, 5, 31, -1;", {a});
  const auto butterfly = each<uint32_t>("shfl.sync.bfly.b32 %d, %a, 6, 0x1f, -1;", {a});
  const auto index = each<uint32_t>("shfl.sync.idx.b32 %d, %a, 2, 0x181f, -1;", {a});  // segments of 8
  for (size_t k = 0; k < a.size(); ++k) {
    const size_t l = k % 32, base = k - l;
    ASSERT_EQ(up[k], l < 3 ? 0 : a[k - 3]);
    ASSERT_EQ(down[k], l + 5 > 31 ? a[k] : a[k + 5]);
    ASSERT_EQ(butterfly[k], a[base + (l ^ 6)]);
    ASSERT_EQ(index[k], a[base + l / 8 * 8 + 2]);
  }
}

TEST(Exchange, VotesMatchesReductions) {
  const auto a = lanes();
  const auto ballot = each<uint32_t>("setp.gt.u32 %p, %a, 200; vote.sync.ballot.b32 %d, %p, -1;", {a});
  const auto any = each<uint32_t>("setp.eq.u32 %p, %a, 3; vote.sync.any.pred %q, %p, -1; selp.u32 %d, 1, 0, %q;", {a});
  const auto all =
    each<uint32_t>("setp.gt.u32 %p, %a, 500; vote.sync.all.pred %q, %p, -1; selp.u32 %d, 1, 0, %q;", {a});
  const auto match = each<uint32_t>("and.b32 %w0, %a, 4; match.any.sync.b32 %d, %w0, -1;", {a});
  const auto sum = each<uint32_t>("redux.sync.add.u32 %d, %a, -1;", {a});
  const auto most = each<int32_t>("redux.sync.max.s32 %d, %a, -1;", {a});
  const auto active = each<uint32_t>(
    "mov.u32 %d, 0; and.b32 %w0, %t, 1; setp.eq.u32 %p, %w0, 0; @!%p bra out; activemask.b32 %d; out:", {a});
  for (size_t k = 0; k < a.size(); ++k) {
    const size_t base = k / 32 * 32;
    uint32_t bits = 0, equal = 0, total = 0;
    int32_t largest = 0;
    bool every = true;
    for (size_t l = 0; l < 32; ++l) {
      bits |= static_cast<uint32_t>(a[base + l] > 200) << l;
      equal |= static_cast<uint32_t>((a[base + l] & 4) == (a[k] & 4)) << l;
      total += a[base + l];
      largest = std::max(largest, static_cast<int32_t>(a[base + l]));
      every = every && a[base + l] > 500;
    }
    ASSERT_EQ(ballot[k], bits);
    ASSERT_EQ(any[k], base == 0 ? 1u : 0u);
    ASSERT_EQ(all[k], every ? 1u : 0u);
    ASSERT_EQ(match[k], equal);
    ASSERT_EQ(sum[k], total);
    ASSERT_EQ(most[k], largest);
    ASSERT_EQ(active[k], k % 2 == 0 ? 0x55555555u : 0u);
  }
}

TEST(Divergence, LoopsOfEveryLengthMeetAgain) {
  // Collatz steps, a loop of different length for every lane, followed by a shuffle of all lanes.
  std::vector<uint32_t> a(256);
  std::iota(a.begin(), a.end(), 1u);
  const auto d = each<uint32_t>(
    "mov.u32 %w0, %a; mov.u32 %d, 0;\n"
    "again: setp.eq.u32 %p, %w0, 1; @%p bra out; and.b32 %w1, %w0, 1; setp.eq.u32 %q, %w1, 0; @%q bra even;\n"
    "mad.lo.u32 %w0, %w0, 3, 1; bra next; even: shr.u32 %w0, %w0, 1; next: add.u32 %d, %d, 1; bra again;\n"
    "out: shfl.sync.bfly.b32 %d, %d, 1, 31, -1;",
    {a});
  for (size_t k = 0; k < a.size(); ++k) {
    uint32_t n = 0;
    for (uint32_t v = a[k ^ 1]; v != 1; ++n) v = v & 1 ? 3 * v + 1 : v / 2;
    ASSERT_EQ(d[k], n) << k;
  }
}

TEST(Divergence, IndexedBranchesAndCalls) {
  const std::string text = R"(
.func (.param .b32 result) twice(.param .b32 x) {
  .reg .b32 %v; .reg .pred %p;
  ld.param.b32 %v, [x]; setp.gt.u32 %p, %v, 100; @%p bra big; add.u32 %v, %v, %v; st.param.b32 [result], %v; ret;
big: st.param.b32 [result], 7; ret;
}
.visible .entry k(.param .u64 out) {
  .reg .b32 %t, %i, %d; .reg .b64 %o, %w;
  mov.u32 %t, %tid.x; and.b32 %i, %t, 3; cvt.u64.u32 %w, %t; ld.param.u64 %o, [out]; mad.lo.u64 %o, %w, 4, %o;
  table: .branchtargets zero, one, two, two;
  brx.idx %i, table;
zero: mov.u32 %d, 1000; bra store;
one: { .param .b32 a; .param .b32 r; st.param.b32 [a], %t; call.uni (r), twice, (a); ld.param.b32 %d, [r]; } bra store;
two: mov.u32 %d, %i;
store: st.global.u32 [%o], %d; ret;
})";
  Machine m(text);
  const uint64_t out = m.put(std::vector<uint32_t>(128));
  m.run("k", {{1, 1, 1}, {128, 1, 1}}, out);
  const auto d = m.get<uint32_t>(out, 128);
  for (uint32_t k = 0; k < 128; ++k)
    ASSERT_EQ(d[k], k % 4 == 0 ? 1000 : k % 4 == 1 ? (k > 100 ? 7 : 2 * k) : k % 4) << k;
}

TEST(Divergence, ASpinLockInsideAWarpMakesProgress) {
  const std::string text = R"(
.visible .entry k(.param .u64 lock, .param .u64 sum) {
  .reg .b64 %l, %s; .reg .b32 %o, %v; .reg .pred %p;
  ld.param.u64 %l, [lock]; ld.param.u64 %s, [sum];
again: atom.global.cas.b32 %o, [%l], 0, 1; setp.ne.u32 %p, %o, 0; @%p bra again;
  ld.volatile.global.u32 %v, [%s]; add.u32 %v, %v, 1; st.volatile.global.u32 [%s], %v; membar.gl;
  atom.global.exch.b32 %o, [%l], 0; ret;
})";
  Machine m(text);
  const uint64_t lock = m.put(std::vector<uint32_t>(1)), sum = m.put(std::vector<uint32_t>(1));
  m.run("k", {{4, 1, 1}, {64, 1, 1}}, lock, sum);
  EXPECT_EQ(m.get<uint32_t>(sum, 1)[0], 256u);
}

const std::string kReduce = R"(
.visible .entry k(.param .u64 in, .param .u64 out) {
  .shared .align 4 .b8 buffer[1024];
  .reg .b64 %i, %o, %w; .reg .b32 %t, %b, %g, %a, %n, %h, %x; .reg .f32 %f, %f2; .reg .pred %p;
  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %g, %b, %n, %t; cvt.u64.u32 %w, %g;
  ld.param.u64 %i, [in]; mad.lo.u64 %i, %w, 4, %i; ld.global.f32 %f, [%i];
  mov.u32 %a, buffer; mad.lo.u32 %a, %t, 4, %a; st.shared.f32 [%a], %f;
  shr.u32 %h, %n, 1;
loop: bar.sync 0; setp.ge.u32 %p, %t, %h; @%p bra skip;
  mad.lo.u32 %x, %h, 4, %a; ld.shared.f32 %f2, [%x]; ld.shared.f32 %f, [%a]; add.f32 %f, %f, %f2; st.shared.f32 [%a], %f;
skip: shr.u32 %h, %h, 1; setp.ne.u32 %p, %h, 0; @%p bra loop;
  setp.ne.u32 %p, %t, 0; @%p bra done; ld.param.u64 %o, [out]; red.global.add.f32 [%o], %f;
done: ret;
})";

TEST(Launch, SharedMemoryReductionIsTheSameForAnyThreadCount) {
  std::vector<float> in(256 * 50);
  for (size_t k = 0; k < in.size(); ++k) in[k] = 1.0f / static_cast<float>(k + 1);
  const int before = num_threads();
  std::vector<uint32_t> bits;
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    Machine m(kReduce);
    const uint64_t a = m.put(in), o = m.put(std::vector<float>(1));
    const Counters c = m.run("k", {{50, 1, 1}, {256, 1, 1}}, a, o);
    bits.push_back(std::bit_cast<uint32_t>(m.get<float>(o, 1)[0]));
    EXPECT_EQ(c.blocks, 50u);
    EXPECT_EQ(c.barriers, 50u * 8);
    EXPECT_EQ(c.atomics, 50u);
    EXPECT_EQ(c.global_requests, 50u * 9);  // 8 warps load, one adds
    EXPECT_EQ(c.global_sectors, 50u * (8 * 4 + 1));
    EXPECT_LT(c.simt_efficiency(), 1.0);
  }
  set_num_threads(before);
  EXPECT_EQ(bits[0], bits[1]);
  EXPECT_EQ(bits[0], bits[2]);
  EXPECT_NEAR(std::bit_cast<float>(bits[0]), std::accumulate(in.begin(), in.end(), 0.0), 1e-4);
}

TEST(Barrier, ReductionsAndNamedBarriers) {
  std::vector<uint32_t> a(64);
  std::iota(a.begin(), a.end(), 0u);
  const auto count = each<uint32_t>("setp.lt.u32 %p, %a, 40; bar.red.popc.u32 %d, 1, %p;", {a});
  const auto all =
    each<uint32_t>("setp.lt.u32 %p, %a, 40; bar.red.and.pred %q, 2, 64, %p; selp.u32 %d, 1, 0, %q;", {a});
  const auto any =
    each<uint32_t>("setp.lt.u32 %p, %a, 1; barrier.cta.red.or.pred %q, 2, !%p; selp.u32 %d, 1, 0, %q;", {a});
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(count[k], 40u);
    ASSERT_EQ(all[k], 0u);
    ASSERT_EQ(any[k], 1u);
  }
  // The first warp produces and goes on, the second waits for it.
  const auto d = each<uint32_t>(
    ".shared .align 4 .b8 s[4]; setp.ge.u32 %p, %a, 32; @%p bra wait; st.shared.u32 [s], 99; bar.arrive 3, 64; mov.u32 "
    "%d, 1; bra out;\n"
    "wait: bar.sync 3, 64; ld.shared.u32 %d, [s]; out:",
    {a});
  for (size_t k = 0; k < a.size(); ++k) ASSERT_EQ(d[k], k < 32 ? 1u : 99u);
}

TEST(Atomic, EveryOperation) {
  const std::vector<uint32_t> a{5, 9, 1, 7};
  struct Case {
    const char* text;
    uint32_t start, expected;
  };
  const Case cases[] = {{"add.u32 %w0, [%l0], %a", 100, 122},
                        {"min.s32 %w0, [%l0], %a", 100, 1},
                        {"max.u32 %w0, [%l0], %a", 2, 9},
                        {"and.b32 %w0, [%l0], %a", 7, 1},
                        {"or.b32 %w0, [%l0], %a", 0, 15},
                        {"xor.b32 %w0, [%l0], %a", 0, 5 ^ 9 ^ 1 ^ 7},
                        {"exch.b32 %w0, [%l0], %a", 0, 7},
                        {"inc.u32 %w0, [%l0], 2", 1, 2},
                        {"dec.u32 %w0, [%l0], 5", 1, 3},
                        {"cas.b32 %w0, [%l0], 3, %a", 3, 5},
                        {"add.f32 %w0, [%l0], 0f3F800000", 0, 0x40800000}};
  for (const Case& c : cases) {
    Machine m(
      fmt::format(".visible .entry k(.param .u64 p, .param .u64 q) {{ .reg .b64 %l<2>, %x; .reg .b32 %w<3>, %a;\n"
                  "ld.param.u64 %l0, [p]; ld.param.u64 %l1, [q]; mov.u32 %w1, %tid.x; cvt.u64.u32 %x, %w1; mad.lo.u64 "
                  "%l1, %x, 4, %l1;\n"
                  "ld.global.u32 %a, [%l1]; atom.global.{}; ret; }}",
                  c.text));
    const uint64_t p = m.put(std::vector<uint32_t>{c.start}), q = m.put(a);
    m.run("k", {{1, 1, 1}, {4, 1, 1}}, p, q);
    EXPECT_EQ(m.get<uint32_t>(p, 1)[0], c.expected) << c.text;
  }
}

}  // namespace
}  // namespace strata::cuda::vgpu::testing
