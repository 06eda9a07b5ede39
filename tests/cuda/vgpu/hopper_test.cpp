// mbarrier, bulk copies, wgmma and clusters, one instruction or protocol at a time.
#include <fmt/core.h>

#include "cuda/vgpu/tensor_map.h"
#include "tests/cuda/vgpu/machine.h"
#include "tests/expect_error.h"

namespace strata::cuda::vgpu::testing {

namespace {

const std::string kSm90 = ".version 8.3\n.target sm_90a\n.address_size 64\n";

struct Hopper : Machine {
  explicit Hopper(const std::string& body) : Machine(Whole{kSm90 + body}, "hopper") {}
};

TensorMap map_of(uint64_t address, unsigned x, unsigned y, unsigned box_x, unsigned box_y, int swizzle) {
  const unsigned long long sizes[] = {x, y}, strides[] = {(x * 2 + 15) / 16 * 16};
  const unsigned box[] = {box_x, box_y}, steps[] = {1, 1};
  TensorMap m;
  bool supported = false;
  EXPECT_EQ(encode({6, 2, address, sizes, strides, box, steps, 0, swizzle, 0}, m, supported), "");
  return m;
}

// Thread 0 loads a box of 64 x 4 at (x, y) and expects `bytes`; all threads wait, then copy it to `out`.
const std::string kLoad = R"(
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 x, .param .u32 y, .param .u32 bytes) {
.reg .pred %p; .reg .b32 %t, %x, %y, %n, %v, %s; .reg .b64 %m, %o, %w;
.shared .align 1024 .b8 data[1024]; .shared .align 8 .b64 bar;
mov.u32 %t, %tid.x; ld.param.u32 %x, [x]; ld.param.u32 %y, [y]; ld.param.u32 %n, [bytes]; ld.param.u64 %o, [out];
setp.ne.u32 %p, %t, 0;
@%p bra WAIT;
mov.b64 %m, map; cvta.param.u64 %m, %m;
mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], %n;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%m, {%x, %y}], [bar];
WAIT:
bar.sync 0;
AGAIN:
mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
@!%p bra AGAIN;
mov.u32 %s, data; mad.lo.u32 %s, %t, 4, %s; ld.shared.u32 %v, [%s];
mul.wide.u32 %w, %t, 4; add.u64 %o, %o, %w; st.global.u32 [%o], %v;
ret; })";

std::vector<uint16_t> counted(size_t n) {
  std::vector<uint16_t> v(n);
  for (size_t k = 0; k < n; ++k) v[k] = static_cast<uint16_t>(k + 1);
  return v;
}

TEST(Hopper, LoadsABoxAndFillsWithZerosOutside) {
  Hopper m(kLoad);
  const uint64_t data = m.put(counted(96 * 8)), out = m.put(std::vector<uint16_t>(512));
  for (const auto& [x, y, swizzle] : {std::tuple{0, 0, 0}, {64, 6, 0}, {-8, -1, 0}, {40, 2, 3}}) {
    const Counters c = m.run("k", {{1, 1, 1}, {128, 1, 1}}, map_of(data, 96, 8, 64, 2, swizzle), out, x, y, 256);
    const auto got = m.get<uint16_t>(out, 128);
    for (int row = 0; row < 2; ++row)
      for (int column = 0; column < 64; ++column) {
        const int at = row * 128 + column * 2, place = swizzle ? at ^ (at >> 7 & 7) << 4 : at;
        const bool inside = x + column >= 0 && x + column < 96 && y + row >= 0 && y + row < 8;
        EXPECT_EQ(got[static_cast<size_t>(place / 2)], inside ? (y + row) * 96 + x + column + 1 : 0)
          << row << ' ' << column;
      }
    if (x == 0) {
      EXPECT_EQ(c.global_sectors, 8U + 16U);  // two rows of 128 bytes, and 512 bytes of results
    }
  }
}

TEST(Hopper, WrongByteCountIsADeadlock) {
  Hopper m(kLoad);
  const uint64_t data = m.put(counted(96 * 8)), out = m.put(std::vector<uint16_t>(512));
  const TensorMap map = map_of(data, 96, 8, 64, 2, 0);
  EXPECT_ERROR(Runtime, "0 of 1 arrivals and 16 bytes are missing",
               m.run("k", {{1, 1, 1}, {128, 1, 1}}, map, out, 0, 0, 272));
  EXPECT_ERROR(Runtime, "no tensor map", m.run("k", {{1, 1, 1}, {128, 1, 1}}, TensorMap{.magic = 0}, out, 0, 0, 256));
}

TEST(Hopper, StoresAreClippedAndNeedAWait) {
  Hopper m(R"(
.visible .entry k(.param .align 64 .b8 map[128], .param .u32 x, .param .u32 y) {
.reg .pred %p; .reg .b32 %t, %x, %y, %s; .reg .b64 %m;
.shared .align 1024 .b8 data[256];
mov.u32 %t, %tid.x; ld.param.u32 %x, [x]; ld.param.u32 %y, [y];
mov.u32 %s, data; mad.lo.u32 %s, %t, 4, %s; mad.lo.u32 %t, %t, 65537, 65537; st.shared.u32 [%s], %t;
fence.proxy.async.shared::cta;
bar.sync 0;
mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0;
@%p ret;
mov.b64 %m, map; cvta.param.u64 %m, %m;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%m, {%x, %y}], [data];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
ret; })");
  const uint64_t data = m.put(std::vector<uint16_t>(96 * 8));
  m.run("k", {{1, 1, 1}, {64, 1, 1}}, map_of(data, 96, 8, 64, 2, 0), 80, 7);
  const auto got = m.get<uint16_t>(data, 96 * 8);
  for (int k = 0; k < 96 * 8; ++k)
    EXPECT_EQ(got[static_cast<size_t>(k)], k >= 7 * 96 + 80 ? (k - 7 * 96 - 80) / 2 + 1 : 0) << k;
}

// Four warps copy 9 KiB into shared memory and multiply: A is at its start, B 8 KiB further.
std::string product(const std::string& descriptor_bits, const std::string& instruction) {
  return R"(
.visible .entry k(.param .u64 in, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %s, %v, %d<8>; .reg .b64 %i, %o, %w, %a, %b;
.shared .align 1024 .b8 data[9216];
mov.u32 %t, %tid.x; ld.param.u64 %i, [in]; ld.param.u64 %o, [out];
mov.u32 %s, %t;
COPY:
mul.wide.u32 %w, %s, 4; add.u64 %w, %w, %i; ld.global.u32 %v, [%w];
{ .reg .b32 %e; mov.u32 %e, data; mad.lo.u32 %e, %s, 4, %e; st.shared.u32 [%e], %v; }
add.u32 %s, %s, 128; setp.lt.u32 %p, %s, 2304;
@%p bra COPY;
fence.proxy.async.shared::cta;
bar.sync 0;
mov.u32 %s, data; shr.u32 %s, %s, 4; cvt.u64.u32 %w, %s;
mov.b64 %a, )" +
         descriptor_bits + R"(; or.b64 %a, %a, %w; add.u64 %b, %a, 512;
mov.b32 %d0, 0; mov.b32 %d1, 0; mov.b32 %d2, 0; mov.b32 %d3, 0; mov.b32 %d4, 0; mov.b32 %d5, 0; mov.b32 %d6, 0; mov.b32 %d7, 0;
wgmma.fence.sync.aligned;
)" + instruction +
         R"(
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mul.wide.u32 %w, %t, 32; add.u64 %o, %o, %w;
st.global.v4.b32 [%o], {%d0, %d1, %d2, %d3}; st.global.v4.b32 [%o+16], {%d4, %d5, %d6, %d7};
ret; })";
}

constexpr const char* kSums = "{%d0,%d1,%d2,%d3,%d4,%d5,%d6,%d7}";
// Rows of 128 bytes with the swizzle, groups of 8 rows 1024 bytes apart.
constexpr uint64_t kSwizzled = uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;

TEST(Hopper, MultipliesWithASwizzle) {
  Hopper m(
    product(fmt::format("{}", kSwizzled),
            fmt::format("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {}, %a, %b, 1, 1, -1, 0, 0;", kSums)));
  const auto a = [](int row, int k) { return (row * 7 + k * 3) % 9 - 4; };
  const auto b = [](int k, int n) { return (k * 5 + n * 11) % 7 - 3; };
  std::vector<uint16_t> data(4608);
  const auto put = [&](int at, int value) {
    data[static_cast<size_t>((at ^ (at >> 7 & 7) << 4) / 2)] = float_to_half(static_cast<float>(value));
  };
  for (int k = 0; k < 16; ++k)
    for (int row = 0; row < 64; ++row) put(row * 128 + k * 2, a(row, k));
  // B is in the last KiB, which has 8 columns.
  for (int k = 0; k < 16; ++k)
    for (int n = 0; n < 8; ++n) put(8192 + n * 128 + k * 2, b(k, n));
  const uint64_t in = m.put(data), out = m.put(std::vector<float>(1024));
  EXPECT_ERROR(Runtime, "wgmma reads shared address 0x2400", m.run("k", {{1, 1, 1}, {128, 1, 1}}, in, out));
  Hopper narrow(
    product(fmt::format("{}", kSwizzled),
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0,%d1,%d2,%d3}, %a, %b, 1, 1, -1, 0, 0;"));
  const uint64_t in2 = narrow.put(data), out2 = narrow.put(std::vector<float>(1024));
  const Counters c = narrow.run("k", {{1, 1, 1}, {128, 1, 1}}, in2, out2);
  const auto got = narrow.get<float>(out2, 1024);
  for (int row = 0; row < 64; ++row)
    for (int n = 0; n < 8; ++n) {
      int want = 0;
      for (int k = 0; k < 16; ++k) want -= a(row, k) * b(k, n);
      const int thread = row / 16 * 32 + row % 8 * 4 + n / 2, r = row % 16 / 8 * 2 + n % 2;
      EXPECT_EQ(got[static_cast<size_t>(thread * 8 + r)], static_cast<float>(want)) << row << ' ' << n;
    }
  EXPECT_EQ(c.mix[static_cast<size_t>(Class::Matrix)], 4U);
}

TEST(Hopper, RefusesAMisalignedDescriptor) {
  Hopper m(product(fmt::format("{}", kSwizzled + (128 >> 4)),
                   "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0,%d1,%d2,%d3}, %a, %b, 1, 1, 1, 0, 0;"));
  const uint64_t in = m.put(std::vector<uint16_t>(4608)), out = m.put(std::vector<float>(1024));
  EXPECT_ERROR(Runtime, "128 bytes after the start of a swizzle pattern of 1024 bytes",
               m.run("k", {{1, 1, 1}, {128, 1, 1}}, in, out));
}

// Every block writes its rank into the next block's shared memory and arrives at its mbarrier.
TEST(Hopper, BlocksOfAClusterShareMemory) {
  Hopper m(R"(
.visible .entry k(.param .u64 out) {
.reg .pred %p; .reg .b32 %r, %n, %s, %v, %i; .reg .b64 %o, %w;
.shared .align 8 .b64 bar; .shared .align 4 .b32 word;
mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
mov.u32 %r, %cluster_ctarank; mov.u32 %n, %cluster_nctarank; add.u32 %v, %r, 1; rem.u32 %n, %v, %n;
mov.u32 %s, word; mapa.shared::cluster.u32 %s, %s, %n; st.shared::cluster.u32 [%s], %v;
mov.u32 %s, bar; mapa.shared::cluster.u32 %s, %s, %n; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%s];
AGAIN:
mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
@!%p bra AGAIN;
ld.shared.u32 %v, [word]; mov.u32 %i, %ctaid.x;
ld.param.u64 %o, [out]; mul.wide.u32 %w, %i, 4; add.u64 %o, %o, %w; st.global.u32 [%o], %v;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ret; })");
  const uint64_t out = m.put(std::vector<uint32_t>(8));
  Launch launch{{8, 1, 1}, {1, 1, 1}};
  launch.cluster = {4, 1, 1};
  launch.checks = kCheckMemory | kCheckRace | kCheckInit | kCheckSync;
  m.run("k", launch, out);
  EXPECT_EQ(m.get<uint32_t>(out, 8), (std::vector<uint32_t>{4, 1, 2, 3, 4, 1, 2, 3}));
  launch.cluster = {3, 1, 1};
  EXPECT_ERROR(Value, "not a multiple of clusters", m.run("k", launch, out));
  launch.cluster = {8, 1, 1};
  m.profile = profile_of("ampere");
  EXPECT_ERROR(Value, "use the profile hopper", m.run("k", launch, out));
}

TEST(Hopper, ArrivalsAreCounted) {
  Hopper m(R"(
.visible .entry k(.param .u32 count) {
.reg .pred %p; .reg .b32 %n; .reg .b64 %s; .shared .align 8 .b64 bar;
ld.param.u32 %n, [count];
mbarrier.init.shared::cta.b64 [bar], 2;
mbarrier.arrive.shared::cta.b64 %s, [bar], %n;
AGAIN:
mbarrier.try_wait.shared::cta.b64 %p, [bar], %s;
@!%p bra AGAIN;
ret; }
.visible .entry fresh() {
.shared .align 8 .b64 bar;
mbarrier.arrive.shared::cta.b64 _, [bar];
ret; })");
  const Launch one{{1, 1, 1}, {1, 1, 1}};
  m.run("k", one, 2);
  EXPECT_ERROR(Runtime, "1 of 2 arrivals and 0 bytes are missing", m.run("k", one, 1));
  EXPECT_ERROR(Runtime, "3 arrivals at the mbarrier", m.run("k", one, 3));
  EXPECT_ERROR(Runtime, "mbarrier.init is missing", m.run("fresh", one));
}

}  // namespace
}  // namespace strata::cuda::vgpu::testing
