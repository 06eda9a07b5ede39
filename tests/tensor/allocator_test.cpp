#include "strata/strata.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include <cstring>
#include <thread>
#include <vector>

#include "tensor/allocator.h"
#include "tensor/memory_checks.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

size_t allocated() { return memory_stats().allocated_bytes; }

struct Limit {
  explicit Limit(size_t bytes) { set_memory_limit(bytes); }
  ~Limit() { set_memory_limit(0); }
};

TEST(Allocator, CountsWhatIsLiveAsAskedFor) {
  const size_t before = allocated();
  const MemoryStats start = memory_stats();
  {
    auto small = allocate(100), large = allocate(1'000'000);
    EXPECT_EQ(allocated(), before + 1'000'100);
    EXPECT_GE(memory_stats().peak_allocated_bytes, before + 1'000'100);
    EXPECT_EQ(memory_stats().allocations, start.allocations + 2);
    auto shared_twice = large;
    EXPECT_EQ(allocated(), before + 1'000'100);
  }
  EXPECT_EQ(allocated(), before);
  reset_peak_memory_stats();
  EXPECT_EQ(memory_stats().peak_allocated_bytes, before);
}

TEST(Allocator, BlocksAreAlignedWritableAndLargeEnough) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{512}, size_t{513},
                       size_t{65536}, size_t{65537}, size_t{3} << 20}) {
    auto block = allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data) % 64, 0u);
    EXPECT_GE(block->capacity, bytes);
    EXPECT_LE(block->capacity, std::max<size_t>(64, bytes + bytes / 7 + 64)) << bytes;  // eight classes per doubling
    std::memset(block->data, 0xab, bytes);
  }
}

#ifdef __SANITIZE_ADDRESS__
TEST(Allocator, AddressSanitizerSeesTheEndOfABlockAndFreeOnes) {
  auto block = allocate(100);
  const std::byte* data = block->data;
  EXPECT_FALSE(__asan_address_is_poisoned(data + 99));
  EXPECT_TRUE(__asan_address_is_poisoned(data + 104));
  block = {};
  EXPECT_TRUE(__asan_address_is_poisoned(data));
}
#endif

TEST(Allocator, ReusesFreedBlocks) {
  for (size_t bytes : {size_t{1000}, size_t{5} << 20}) {
    allocate(bytes);
    const size_t system = memory_stats().system_allocations;
    for (int i = 0; i < 100; ++i) allocate(bytes);
    EXPECT_EQ(memory_stats().system_allocations, system) << bytes;
  }
}

TEST(Allocator, EmptyCacheGivesMemoryBack) {
  { auto block = allocate(size_t{32} << 20); }
  EXPECT_GE(memory_stats().cached_bytes, size_t{32} << 20);
  const size_t reserved = memory_stats().reserved_bytes;
  empty_cache();
  EXPECT_EQ(memory_stats().cached_bytes, 0u);
  EXPECT_LE(memory_stats().reserved_bytes, reserved - (size_t{32} << 20));
}

TEST(Allocator, LimitIsATypedErrorThatSaysWhoHoldsWhat) {
  empty_cache();
  const size_t before = allocated();
  const Limit limit(memory_stats().reserved_bytes + (size_t{8} << 20));
  auto held = allocate(size_t{4} << 20);
  EXPECT_ERROR(OutOfMemory, "tried to allocate 16.0 MiB", allocate(size_t{16} << 20));
  EXPECT_ERROR(OutOfMemory, "are held by live tensors", allocate(size_t{16} << 20));
  EXPECT_ERROR(OutOfMemory, "the limit is", allocate(size_t{16} << 20));
  held = {};
  EXPECT_EQ(allocated(), before);
  EXPECT_NO_THROW(allocate(size_t{4} << 20));
}

TEST(Allocator, CachedBlocksDoNotCountAgainstTheLimit) {
  empty_cache();
  {
    std::vector<Ref<Storage>> small;  // more than the lists of this thread keep, and some that they do keep
    for (int i = 0; i < 64; ++i) small.push_back(allocate(60000));
  }
  const Limit limit(memory_stats().reserved_bytes + (size_t{1} << 20));
  EXPECT_NO_THROW(allocate(size_t{3} << 20));  // fits once the 3.8 MiB of freed small blocks are given back
}

TEST(Allocator, HundredFailuresLeaveTheBaseline) {
  empty_cache();
  const Tensor keep = ones({1000});
  const size_t before = allocated();
  {
    const Limit limit(memory_stats().reserved_bytes + (size_t{4} << 20));
    for (int i = 0; i < 100; ++i) {
      EXPECT_ERROR(OutOfMemory, "out of memory", make_tensor(Shape({int64_t{1} << 24}), kFloat32));
      EXPECT_ERROR(OutOfMemory, "out of memory", expand(keep, {1 << 14, 1000}) + 1);
      EXPECT_ERROR(
        OutOfMemory, "out of memory",
        matmul(expand(reshape(keep, {1000, 1}), {1000, 4096}), expand(reshape(keep, {1, 1000}), {4096, 1000})));
      EXPECT_EQ(allocated(), before);
    }
    EXPECT_EQ(sum(keep).item<double>(), 1000.0);
  }
  EXPECT_EQ(sum(ones({1 << 22})).item<double>(), 4194304.0);
  EXPECT_EQ(allocated(), before);
}

TEST(Allocator, SmallAllocationsFailCleanlyToo) {
  empty_cache();
  const size_t before = allocated();
  {
    std::vector<Ref<Storage>> held;
    const Limit limit(memory_stats().reserved_bytes + 100'000);
    EXPECT_ERROR(OutOfMemory, "out of memory", [&] {
      for (;;) held.push_back(allocate(4096));
    }());
    EXPECT_GE(held.size(), 10u);
    EXPECT_EQ(allocated(), before + held.size() * 4096);
  }
  EXPECT_EQ(allocated(), before);
}

TEST(Allocator, AbsurdSizesAreRefused) {
  const size_t before = allocated();
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2 + 1, SIZE_MAX / 2, SIZE_MAX / 3, size_t{1} << 60})
    EXPECT_ERROR(OutOfMemory, "out of memory", allocate(bytes));
  EXPECT_EQ(allocated(), before);
}

TEST(Allocator, FailingCallsGiveTheirMemoryBack) {
  const Tensor a = ones({300, 300}), b = ones({7});
  const size_t before = allocated();
  EXPECT_ERROR(Runtime, "do not broadcast", (a * 2 + 1) + b);
  EXPECT_ERROR(Index, "out of range", sum(exp(a), 5));
  EXPECT_EQ(allocated(), before);
}

TEST(Allocator, BlocksMayBeFreedByAnotherThread) {
  const size_t before = allocated();
  std::vector<Ref<Storage>> mine;
  for (int i = 0; i < 1000; ++i) mine.push_back(allocate(static_cast<size_t>(i) * 100));
  std::thread([&] { mine.clear(); }).join();
  EXPECT_EQ(allocated(), before);
  std::vector<Ref<Storage>> theirs;
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) theirs.push_back(allocate(static_cast<size_t>(i) * 100));
  }).join();
  EXPECT_EQ(allocated(), before + 100 * 999 * 500);
  theirs.clear();
  EXPECT_EQ(allocated(), before);
}

TEST(Allocator, ManyThreadsAtOnce) {
  const size_t before = allocated();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      std::vector<Ref<Storage>> held;
      for (int i = 0; i < 2000; ++i) {
        const auto bytes = static_cast<size_t>((i * 7919 + t * 104729) % 200000);
        held.push_back(allocate(bytes));
        std::memset(held.back()->data, t, std::min<size_t>(bytes, 64));
        if (held.size() > 20) held.erase(held.begin() + i % 20);
        if (i % 500 == 0) {
          memory_stats();
          empty_cache();
        }
      }
    });
  for (int i = 0; i < 50; ++i) memory_stats();
  for (auto& t : threads) t.join();
  EXPECT_EQ(allocated(), before);
}

#if !defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
TEST(Allocator, DebugBuildsNoticeAWritePastTheEnd) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{100}, size_t{1'000'000}}) {
    const auto block = allocate(bytes);
    EXPECT_FALSE(wrote_past_the_end(*block)) << bytes;
    const std::byte before = block->data[bytes];
    block->data[bytes] = std::byte{1};
    EXPECT_TRUE(wrote_past_the_end(*block)) << bytes;
    block->data[bytes] = before;
  }
}
#endif

TEST(Allocator, AdoptedMemoryIsReleasedOnce) {
  int released = 0;
  float values[4] = {1, 2, 3, 4};
  auto a = adopt_memory(
    values, sizeof values, [](void* p) { ++*static_cast<int*>(p); }, &released);
  auto b = a;
  EXPECT_EQ(static_cast<void*>(b->data), values);
  a = {};
  EXPECT_EQ(released, 0);
  b = {};
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace strata
