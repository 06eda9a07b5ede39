#include "tensor/allocator.h"

#include <fmt/core.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/fork.h"
#include "base/host_memory.h"
#include "base/trace_memory.h"
#include "tensor/memory_checks.h"
#include "tensor/promise.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace strata {
namespace {

constexpr size_t kUnit = 64, kHugePage = size_t{2} << 20;
constexpr uint32_t kClasses = 480, kLocalClasses = 72;  // eight classes per doubling; the first 72 end at 64 KiB
constexpr uint32_t kGuardedClass = kClasses;            // blocks between guard pages, which are never cached
constexpr int kLocalKeep = 32;
constexpr uint8_t kHeaderKeep = 16;

// Debug builds write a pattern after each block, which dispatch checks after each kernel: a write past the end is
// reported with the kernel's name. Sanitizers and guard pages (tensor/memory_checks.h) also detect reads.
#if defined(NDEBUG) || defined(__SANITIZE_ADDRESS__)
constexpr size_t kCanary = 0;
#else
constexpr size_t kCanary = 64;
#endif
constexpr std::byte kCanaryByte{0xC5};

// Eight classes per doubling: at most 12.5 % waste, and the class is found with one bit scan.
struct SizeClass {
  uint32_t index;
  size_t bytes;
};
SizeClass size_class(size_t bytes) {
  const size_t units = bytes ? (bytes - 1) / kUnit + 1 : 1;
  if (units <= 8) return {static_cast<uint32_t>(units - 1), units * kUnit};
  const uint32_t log = std::bit_width(units - 1);
  const size_t base = size_t{1} << (log - 1), step = base / 8, sub = (units - 1 - base) / step;
  return {static_cast<uint32_t>(8 + (log - 4) * 8 + sub), (base + (sub + 1) * step) * kUnit};
}

// Per-thread lists for blocks of up to 64 KiB. Each thread has its own counters, which are summed on demand.
struct Local {
  Storage* free[kLocalClasses];
  uint8_t room[kLocalClasses];             // free capacity of each list; 0 until the thread is registered
  std::atomic<int64_t> live_bytes, calls;  // written by their thread, read by any
  bool registered, ended;
  Storage* headers;  // free headers for external memory: each device result needs one
  uint8_t header_count;
};
STRATA_THREAD_LOCAL Local local = {};
// Only the owning thread writes, so no locked instruction is needed.
void count(std::atomic<int64_t>& counter, int64_t change) {
  counter.store(counter.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
}

struct Shared {
  std::mutex mutex;
  Storage* free[kClasses] = {};
  std::vector<const Local*> threads;
  int64_t retired_bytes = 0, retired_calls = 0;  // of threads that have ended
  size_t reserved = 0, cached = 0, system_calls = 0, limit = 0, large_live = 0, large_calls = 0, peak = 0;

  int64_t small_live() const {
    int64_t sum = retired_bytes;
    for (const Local* t : threads) sum += t->live_bytes.load(std::memory_order_relaxed);
    return sum;
  }
  size_t live() const { return static_cast<size_t>(std::max<int64_t>(0, small_live())) + large_live; }
};
Shared& shared() {
  // Never destroyed: static tensors may outlive every destructor.
  static auto* s = [] {
    auto* made = new Shared;
    hold_over_fork(made->mutex, ForkOrder::Memory);
    return made;
  }();
  return *s;
}

size_t cache_limit() {
  static const size_t limit =
    static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE)) / 2;
  return limit;
}

// Under AddressSanitizer, poison the unused end of a block, and all of a free block.
void guard([[maybe_unused]] const Storage* b, [[maybe_unused]] size_t usable) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(b->data, usable);
  __asan_poison_memory_region(b->data + usable, b->capacity - usable);
#endif
}

Storage* pop(Storage*& head) {
  Storage* b = head;
  if (b) head = b->next;
  return b;
}
void push(Storage*& head, Storage* b) {
  b->next = head;
  head = b;
}

size_t footprint(const Storage* b) {
  const size_t align = b->capacity >= kHugePage ? kHugePage : kUnit;
  return (b->capacity + sizeof(Storage) + align - 1) / align * align;
}
void give_system(Shared& s, Storage* b) {  // requires the lock
  s.reserved -= footprint(b);
  guard(b, b->capacity);
  b->~Storage();
  std::free(b);
}
void keep_shared(Shared& s, Storage* b) {  // requires the lock
  if (s.cached + b->capacity > cache_limit()) return give_system(s, b);
  s.cached += b->capacity;
  push(s.free[b->size_class], b);
}
void drain_local(Shared& s) {  // requires the lock
  for (uint32_t i = 0; i < kLocalClasses; ++i) {
    while (Storage* b = pop(local.free[i])) keep_shared(s, b);
    local.room[i] = local.ended ? 0 : kLocalKeep;
  }
  while (Storage* b = pop(local.headers)) delete b;
  local.header_count = 0;
}
// Requires the lock; called on slow paths. Registers the thread, whether it allocates or only frees, so that its
// counters are found; at thread exit they are added to those of ended threads.
void settle(Shared& s) {
  s.retired_bytes += local.live_bytes.exchange(0, std::memory_order_relaxed);
  s.retired_calls += local.calls.exchange(0, std::memory_order_relaxed);
}
struct Janitor {
  ~Janitor() {
    Shared& s = shared();
    std::lock_guard lock(s.mutex);
    local.ended = true;
    drain_local(s);  // from now on, this thread frees to the shared lists
    settle(s);
    std::erase(s.threads, &local);
  }
};
void meet_thread(Shared& s) {
  if (local.ended) return settle(s);  // destructors of other thread-local objects may still free
  if (local.registered) return;
  static thread_local Janitor janitor;
  (void)janitor;
  s.threads.push_back(&local);
  local.registered = true;
  std::fill_n(local.room, kLocalClasses, static_cast<uint8_t>(kLocalKeep));
}
void give_guarded(Shared& s, Storage* b) {  // requires the lock
  s.reserved -= b->capacity;
  guard(b, b->capacity);  // what is mapped at this address later is not poisoned
  unmap_guarded(b->data, b->capacity);
  delete b;
}
void give_shared(Storage* b) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  meet_thread(s);
  if (b->size_class >= kLocalClasses) s.large_live -= b->requested;
  if (b->size_class == kGuardedClass) return give_guarded(s, b);
  keep_shared(s, b);
}
void empty_shared(Shared& s) {  // requires the lock
  for (Storage*& head : s.free)
    while (Storage* b = pop(head)) give_system(s, b);
  s.cached = 0;
}

[[noreturn]] void out_of_memory(const Shared& s, size_t bytes) {
  const auto mib = [](size_t n) { return static_cast<double>(n) / (1 << 20); };
  const std::string limit =
    s.limit ? fmt::format("the limit is {:.1f} MiB", mib(s.limit)) : std::string("the system has no more");
  fail(ErrorKind::OutOfMemory,
       fmt::format("out of memory: tried to allocate {:.1f} MiB on the CPU; {:.1f} MiB are held by live tensors, "
                   "{:.1f} MiB are cached, {}. "
                   "Free tensors, use a smaller batch, or raise the limit with set_memory_limit().",
                   mib(bytes), mib(s.live()), mib(s.cached), limit));
}

Storage* allocate_guarded(Shared& s, SizeClass c, size_t bytes) {  // requires the lock
  if (bytes > SIZE_MAX / 4 || (s.limit && s.reserved + bytes > s.limit)) out_of_memory(s, bytes);
  std::byte* data = map_guarded(bytes);
  if (!data) out_of_memory(s, bytes);
  auto* b = new Storage{};
  b->size_class = kGuardedClass;
  b->capacity = bytes;
  b->data = data;
  s.reserved += bytes;
  ++s.system_calls;
  if (c.index < kLocalClasses) count(local.live_bytes, -static_cast<int64_t>(bytes));  // counted as large instead
  s.large_live += bytes;
  s.peak = std::max(s.peak, s.live());
  return b;
}

[[gnu::noinline]] Storage* allocate_slow(SizeClass c, size_t bytes) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  meet_thread(s);
  if (guard_pages_wanted()) [[unlikely]]
    return allocate_guarded(s, c, bytes);
  const bool large = c.index >= kLocalClasses;
  Storage* b = pop(s.free[c.index]);
  if (b) {
    s.cached -= c.bytes;
  } else {
    const size_t align = c.bytes >= kHugePage ? kHugePage : kUnit;
    // A system that overcommits would kill the process when the memory is written to.
    if (bytes > SIZE_MAX / 4 || bytes > host_memory()) out_of_memory(s, bytes);
    const size_t total = (c.bytes + sizeof(Storage) + align - 1) / align * align;
    if (s.limit && s.reserved + total > s.limit) {
      drain_local(s);
      empty_shared(s);
    }
    if (s.limit && s.reserved + total > s.limit) out_of_memory(s, bytes);
    void* memory = std::aligned_alloc(align, total);
    if (!memory) {
      drain_local(s);
      empty_shared(s);
      memory = std::aligned_alloc(align, total);
    }
    if (!memory) out_of_memory(s, bytes);
    if (align == kHugePage) madvise(memory, total, MADV_HUGEPAGE);
    b = new (memory) Storage{};
    b->size_class = static_cast<uint16_t>(c.index);
    b->capacity = c.bytes;
    b->data = reinterpret_cast<std::byte*>(b + 1);
    s.reserved += total;
    ++s.system_calls;
  }
  if (large) {
    s.large_live += bytes;
    ++s.large_calls;
    s.peak = std::max(s.peak, s.live());
  }
  return b;
}
}  // namespace

Ref<Storage> allocate(size_t bytes) {
  const SizeClass c = size_class(bytes < SIZE_MAX - kCanary ? bytes + kCanary : bytes);
  Storage* b = nullptr;
  if (c.index < kLocalClasses) {
    if ((b = pop(local.free[c.index]))) ++local.room[c.index];
    count(local.live_bytes, static_cast<int64_t>(bytes));
    count(local.calls, 1);
  }
  if (!b) {
    try {
      b = allocate_slow(c, bytes);
    } catch (...) {
      if (c.index < kLocalClasses) count(local.live_bytes, -static_cast<int64_t>(bytes));
      throw;
    }
  }
  b->requested = bytes;
  guard(b, bytes);
  if (kCanary && b->size_class != kGuardedClass) std::fill_n(b->data + bytes, kCanary, kCanaryByte);
  b->version.store(0, std::memory_order_relaxed);
  b->unseen.store(0, std::memory_order_relaxed);
  b->shared = false;
  b->refs.store(1, std::memory_order_relaxed);
  return Ref<Storage>::adopt(b);
}

Ref<Storage> adopt_memory(void* data, size_t bytes, void (*release)(void*), void* owner) {
  Storage* b = pop(local.headers);
  if (b) {
    --local.header_count;
    b = new (b) Storage{};
  } else {
    b = new Storage{};
    if (!local.registered && !local.ended) [[unlikely]] {
      Shared& s = shared();
      std::lock_guard lock(s.mutex);
      meet_thread(s);
    }
  }
  b->refs.store(1, std::memory_order_relaxed);
  b->external = true;
  b->capacity = b->requested = bytes;
  b->data = static_cast<std::byte*>(data);
  b->release = release;
  b->owner = owner;
  return Ref<Storage>::adopt(b);
}

bool wrote_past_the_end(const Storage& b) {
  if (!kCanary || b.external || b.size_class == kGuardedClass) return false;
  const std::byte* end = b.data + b.requested;
  return std::any_of(end, end + kCanary, [](std::byte x) { return x != kCanaryByte; });
}

void Storage::destroy(Storage* b) {
  if (b->derived.load(std::memory_order_relaxed)) [[unlikely]]
    delete b->derived.exchange(nullptr);
  if (b->external) {
    if (b->size_class) [[unlikely]]
      drop_promise(*b);
    if (b->release) b->release(b->owner);
    if (local.header_count == kHeaderKeep || !local.registered || local.ended) return delete b;
    ++local.header_count;
    return push(local.headers, b);
  }
  if (b->owner) [[unlikely]]
    drop_promise(*b);
  if (tracing::watches_memory.load(std::memory_order_relaxed)) [[unlikely]]
    tracing::note_free(b->data, b->requested);
  guard(b, 0);
  const uint32_t i = b->size_class;
  if (i < kLocalClasses) {
    count(local.live_bytes, -static_cast<int64_t>(b->requested));
    if (local.room[i]) {
      --local.room[i];
      return push(local.free[i], b);
    }
  }
  give_shared(b);
}

MemoryStats memory_stats() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  int64_t calls = s.retired_calls + static_cast<int64_t>(s.large_calls);
  for (const Local* t : s.threads) calls += t->calls.load(std::memory_order_relaxed);
  const size_t live = s.live();
  return {live, std::max(s.peak, live), s.reserved, s.cached, s.system_calls, static_cast<size_t>(calls), s.limit};
}

void reset_peak_memory_stats() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  s.peak = s.live();
}

void set_memory_limit(size_t bytes) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  s.limit = bytes;
}

void empty_cache() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  meet_thread(s);
  drain_local(s);
  empty_shared(s);
}

}  // namespace strata
