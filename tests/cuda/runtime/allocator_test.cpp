// The device allocator over a separate virtual GPU: splitting, merging, streams, limits, statistics.
#include "cuda/runtime/allocator.h"

#include <gtest/gtest.h>

#include "cuda/driver/vgpu.h"
#include "cuda/runtime/stream.h"
#include "tests/expect_error.h"

namespace strata::cuda {
namespace {

struct DeviceAllocator : ::testing::Test {
  DeviceAllocator() : runtime(DeviceType::Vgpu, table()), gpu(runtime[0]), memory(*gpu.allocator) {}
  static const driver::Table& table() {
    const driver::Table& t = driver::open_vgpu({.memory = 64 << 20});
    EXPECT_EQ(t.cuInit(0), driver::kSuccess);
    return t;
  }
  static uint64_t at(const Ref<Storage>& s) { return reinterpret_cast<uint64_t>(s->data); }
  Runtime runtime;
  Gpu& gpu;
  Allocator& memory;
};

TEST_F(DeviceAllocator, SplitsAndJoins) {
  Ref<Storage> a = memory.allocate(1000, nullptr), b = memory.allocate(2000, nullptr), c = memory.allocate(1, nullptr);
  EXPECT_EQ(at(b), at(a) + 1024);
  EXPECT_EQ(at(c), at(b) + 2048);
  EXPECT_EQ(memory.stats().allocated, 3001u);
  EXPECT_EQ(memory.stats().reserved, size_t{2} << 20);
  const uint64_t first = at(a);
  a = {};
  b = {};
  const Ref<Storage> again = memory.allocate(1000, nullptr);  // the freed one, unchanged
  EXPECT_EQ(at(again), first);
}

TEST_F(DeviceAllocator, NeighboursAreJoinedWhereNothingElseFits) {
  constexpr size_t kHalf = size_t{1} << 20;  // of a segment of small blocks
  Ref<Storage> a = memory.allocate(1024, nullptr), b = memory.allocate(2048, nullptr);
  const Ref<Storage> rest = memory.allocate(kHalf - 3072, nullptr), end = memory.allocate(kHalf, nullptr);
  const uint64_t first = at(a);
  a = {};
  b = {};
  Ref<Storage> d = memory.allocate(3000, nullptr);  // fits only in both together
  EXPECT_EQ(at(d), first);
  EXPECT_EQ(memory.stats().segments, 1u);
  d = {};
  EXPECT_EQ(memory.stats().allocated, 2 * kHalf - 3072);
}

TEST_F(DeviceAllocator, AnEmptiedCacheGivesEverythingBack) {
  Ref<Storage> a = memory.allocate(1000, nullptr), b = memory.allocate(2000, nullptr), c = memory.allocate(1, nullptr);
  a = {};
  b = {};
  c = {};
  EXPECT_EQ(memory.stats().allocated, 0u);
  for (const auto& block : memory.snapshot()) EXPECT_TRUE(block.free);
  memory.empty_cache();
  EXPECT_EQ(memory.stats().reserved, 0u);
  EXPECT_EQ(memory.stats().peak_allocated, 3001u);
}

TEST_F(DeviceAllocator, StreamsDoNotShareFreedBlocks) {
  const Stream other = Stream::create(gpu);
  Ref<Storage> a = memory.allocate(4096, nullptr);
  const uint64_t place = at(a);
  a = {};
  EXPECT_NE(at(memory.allocate(4096, other.handle())), place);
  EXPECT_EQ(at(memory.allocate(4096, nullptr)), place);
}

TEST_F(DeviceAllocator, WaitsForOtherUsers) {
  const Stream other = Stream::create(gpu);
  Ref<Storage> a = memory.allocate(4096, nullptr);
  const uint64_t place = at(a);
  memory.record_stream(*a, other.handle());
  a = {};
  other.synchronize();  // then the event has completed
  EXPECT_EQ(at(memory.allocate(4096, nullptr)), place);
}

TEST_F(DeviceAllocator, GivesCachedSegmentsBackBeforeItFails) {
  for (int i = 0; i < 3; ++i) memory.allocate(size_t{18} << 20, nullptr);  // one after the other: the same segment
  Ref<Storage> large = memory.allocate(size_t{50} << 20, nullptr);         // fits only without the cached one
  EXPECT_EQ(memory.stats().retries, 1u);
  EXPECT_EQ(memory.stats().reserved, size_t{50} << 20);
  for (int i = 0; i < 100; ++i)
    EXPECT_ERROR(OutOfMemory, "out of memory. Tried to allocate 40.00 MiB", memory.allocate(size_t{40} << 20, nullptr));
  EXPECT_EQ(memory.stats().allocated, size_t{50} << 20);
  EXPECT_EQ(memory.stats().failures, 100u);
}

TEST_F(DeviceAllocator, KeepsToItsLimit) {
  memory.set_limit(size_t{4} << 20);
  const Ref<Storage> a = memory.allocate(100, nullptr);
  EXPECT_ERROR(OutOfMemory, "This process may reserve 4.00 MiB", memory.allocate(size_t{5} << 20, nullptr));
  memory.set_limit(0);
  EXPECT_TRUE(memory.allocate(size_t{5} << 20, nullptr));
}

TEST_F(DeviceAllocator, PoolsOfGraphsKeepTheirMemory) {
  const Stream s = Stream::create(gpu);
  memory.begin_pool(7, s.handle());
  Ref<Storage> inside = memory.allocate(4096, s.handle());
  memory.end_pool();
  const uint64_t place = at(inside);
  inside = {};
  const Ref<Storage> outside = memory.allocate(4096, s.handle());
  EXPECT_NE(at(outside), place);
  memory.empty_cache();
  EXPECT_EQ(memory.stats().reserved, size_t{4} << 20);  // the graph still needs its segment
  memory.release_pool(7);
  memory.empty_cache();
  EXPECT_EQ(memory.stats().reserved, size_t{2} << 20);
}

}  // namespace
}  // namespace strata::cuda
