// Expandable segments over a separate virtual GPU: growth in place, no fragmentation, memory that is returned.
// sweep_test.cpp makes their calls fail.
#include <gtest/gtest.h>

#include "cuda/driver/vgpu.h"
#include "cuda/runtime/allocator.h"
#include "cuda/runtime/stream.h"
#include "tests/expect_error.h"

namespace strata::cuda {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct ExpandableSegments : ::testing::Test {
  ExpandableSegments() : runtime(DeviceType::Vgpu, table()), gpu(runtime[0]), memory(*gpu.allocator) {
    Allocator::configure("expandable_segments:True");
  }
  ~ExpandableSegments() override { Allocator::configure("expandable_segments:False"); }
  static const driver::Table& table() {
    const driver::Table& t = driver::open_vgpu({.memory = 64 * kMiB});
    EXPECT_EQ(t.cuInit(0), driver::kSuccess);
    return t;
  }
  static uint64_t at(const Ref<Storage>& s) { return reinterpret_cast<uint64_t>(s->data); }
  size_t taken() const {  // from the driver
    size_t free = 0, total = 0;
    gpu.activate();
    EXPECT_EQ(gpu.table().cuMemGetInfo(&free, &total), driver::kSuccess);
    return total - free;
  }
  Runtime runtime;
  Gpu& gpu;
  Allocator& memory;
};

TEST_F(ExpandableSegments, GrowInPlace) {
  Ref<Storage> a = memory.allocate(3 * kMiB, nullptr);
  const uint64_t first = at(a);
  EXPECT_EQ(memory.stats().reserved, 4 * kMiB);
  Ref<Storage> b = memory.allocate(3 * kMiB, nullptr);  // one MiB is mapped, two are added
  EXPECT_EQ(at(b), first + 3 * kMiB);
  EXPECT_EQ(memory.stats().reserved, 6 * kMiB);
  a = {};
  b = {};
  a = memory.allocate(40 * kMiB, nullptr);  // the same address, with more memory mapped
  EXPECT_EQ(at(a), first);
  EXPECT_EQ(memory.stats().reserved, 40 * kMiB);
  EXPECT_EQ(memory.stats().segments, 1u);
  EXPECT_EQ(memory.stats().peak_reserved, 40 * kMiB);
  EXPECT_EQ(taken(), 40 * kMiB);
  // The memory is accessible across chunk boundaries.
  std::vector<unsigned char> host(40 * kMiB, 7), back(40 * kMiB);
  ASSERT_EQ(gpu.table().cuMemcpyHtoD(at(a), host.data(), host.size()), driver::kSuccess);
  ASSERT_EQ(gpu.table().cuMemcpyDtoH(back.data(), at(a), back.size()), driver::kSuccess);
  EXPECT_EQ(host, back);
}

TEST_F(ExpandableSegments, GrowingSizesShareTheirMemory) {
  size_t largest = 0;
  for (size_t n = 2; n <= 40; n += 2) {  // fixed segments would have taken their sum, far more than there is
    const Ref<Storage> a = memory.allocate(n * kMiB + 100, nullptr);
    largest = n * kMiB + 100;
    EXPECT_LT(memory.stats().reserved, largest + 2 * AddressRange::kChunk);
  }
  EXPECT_EQ(memory.stats().retries, 0u);
  EXPECT_EQ(taken(), memory.stats().reserved);
}

TEST_F(ExpandableSegments, FreeChunksGoBackFromTheMiddle) {
  Ref<Storage> a = memory.allocate(10 * kMiB, nullptr), b = memory.allocate(10 * kMiB, nullptr);
  const Ref<Storage> c = memory.allocate(3 * kMiB, nullptr);
  const uint64_t first = at(a);
  a = {};
  b = {};
  memory.empty_cache();
  EXPECT_EQ(memory.stats().reserved, 4 * kMiB);  // c's
  EXPECT_EQ(taken(), 4 * kMiB);
  for (const auto& block : memory.snapshot()) EXPECT_GE(block.address, at(c));  // no block without memory is shown
  a = memory.allocate(20 * kMiB, nullptr);                                      // into the hole
  EXPECT_EQ(at(a), first);
  EXPECT_EQ(taken(), 24 * kMiB);
  EXPECT_EQ(memory.stats().reserved, 24 * kMiB);
}

TEST_F(ExpandableSegments, EmptySegmentsGoAway) {
  const Stream other = Stream::create(gpu);
  memory.allocate(100, nullptr);
  memory.allocate(30 * kMiB, nullptr);
  memory.allocate(5 * kMiB, other.handle());
  EXPECT_EQ(memory.stats().segments, 3u);
  memory.empty_cache();
  const DeviceMemoryStats s = memory.stats();
  EXPECT_EQ(s.segments, 0u);
  EXPECT_EQ(s.reserved, 0u);
  EXPECT_EQ(taken(), 0u);
  EXPECT_TRUE(memory.snapshot().empty());
}

TEST_F(ExpandableSegments, AnotherStreamsCacheIsUsedBeforeItFails) {
  const Stream other = Stream::create(gpu);
  memory.allocate(40 * kMiB, other.handle());
  const Ref<Storage> a = memory.allocate(50 * kMiB, nullptr);
  EXPECT_EQ(memory.stats().retries, 1u);
  EXPECT_EQ(taken(), 50 * kMiB);
}

TEST_F(ExpandableSegments, OutOfMemoryHalfWayLeavesNothing) {
  const Ref<Storage> a = memory.allocate(30 * kMiB, nullptr);
  for (int i = 0; i < 100; ++i)  // some chunks are mapped before there are no more
    EXPECT_ERROR(OutOfMemory, "Tried to allocate 50.00 MiB", memory.allocate(50 * kMiB, nullptr));
  EXPECT_EQ(memory.stats().allocated, 30 * kMiB);
  EXPECT_EQ(memory.stats().reserved, 30 * kMiB);
  EXPECT_EQ(taken(), 30 * kMiB);
  EXPECT_TRUE(memory.allocate(34 * kMiB, nullptr));
  memory.set_limit(40 * kMiB);
  memory.empty_cache();
  EXPECT_ERROR(OutOfMemory, "This process may reserve 40.00 MiB", memory.allocate(12 * kMiB, nullptr));
}

TEST_F(ExpandableSegments, PoolsOfGraphsKeepTheirMemory) {
  const Stream s = Stream::create(gpu);
  memory.begin_pool(7, s.handle());
  Ref<Storage> inside = memory.allocate(5 * kMiB, s.handle());
  memory.end_pool();
  const uint64_t place = at(inside);
  inside = {};
  memory.empty_cache();
  EXPECT_EQ(taken(), 6 * kMiB);
  const Ref<Storage> outside = memory.allocate(5 * kMiB, s.handle());
  EXPECT_NE(at(outside), place);
  memory.release_pool(7);
  memory.empty_cache();
  EXPECT_EQ(taken(), 6 * kMiB);
}

TEST(AllocatorSettings, WhatIsUnknownIsRefused) {
  EXPECT_ERROR(Value, "'max_split_size_mb' is not an allocator setting", Allocator::configure("max_split_size_mb:10"));
  EXPECT_ERROR(Value, "must be True or False, found 'yes'", Allocator::configure("expandable_segments:yes"));
  EXPECT_ERROR(Value, "must be True or False, found ''", Allocator::configure("expandable_segments"));
  EXPECT_FALSE(Allocator::expandable);
}

}  // namespace
}  // namespace strata::cuda
