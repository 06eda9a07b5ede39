// CPU memory: size classes, 64-byte alignment, freed blocks kept. A fresh output costs no page faults after the first time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "base/api.h"
#include "base/ref.h"

namespace strata {

// What kernels made of a storage's values and keep for the next call, such as reordered weights. Goes with the storage.
struct STRATA_API Derived {
  virtual ~Derived() = default;
};

// The memory behind one or more tensors. Memory of our own follows this header (one cache line) in the same block; memory
// that came from outside (NumPy, DLPack, a mapped file) is described by it and given back through `release`.
struct STRATA_API alignas(64) Storage {
  std::atomic<int32_t> refs;
  std::atomic<uint32_t> version{0};  // in-place writes so far: saved tensors compare it
  std::atomic<uint32_t> unseen{0};   // writes that saved tensors shall not notice (through .data): caches do
  uint16_t size_class = 0;
  bool external : 1 = false, read_only : 1 = false;  // these three are set before anyone shares the storage
  bool pinned : 1 = false;                           // host memory that a device copies without waiting
  bool shared = false;   // others were given its address (NumPy, DLPack): they may write without a trace
  size_t capacity = 0;   // bytes usable
  size_t requested = 0;  // bytes asked for, for the statistics
  std::byte* data = nullptr;
  union {
    Storage* next;           // link while the block is free
    void (*release)(void*);  // external memory
  };
  void* owner = nullptr;                   // external memory: the argument of release
  std::atomic<Derived*> derived{nullptr};  // guarded by whoever puts it there (cpu/packed.cpp)

  // Counts every write: what caches of values derived from this memory compare.
  uint64_t writes() const {
    return uint64_t{version.load(std::memory_order_relaxed)} + unseen.load(std::memory_order_relaxed);
  }
  static void add_one(std::atomic<uint32_t>& counter) {  // a race of two writers is a race on the values too
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  static void destroy(Storage*);
};

STRATA_API Ref<Storage> allocate(size_t bytes);  // throws OutOfMemory with who holds what
STRATA_API Ref<Storage> adopt_memory(void* data, size_t bytes, void (*release)(void*), void* owner);

struct MemoryStats {
  size_t allocated_bytes;       // in live tensors, as asked for
  size_t peak_allocated_bytes;  // largest so far, taken at allocations above 64 KiB
  size_t reserved_bytes;        // taken from the system: live and cached
  size_t cached_bytes;          // kept for reuse
  size_t system_allocations;    // times the system was asked
  size_t allocations;           // times anyone asked
  size_t limit_bytes;           // 0: none
};
STRATA_API MemoryStats memory_stats();
STRATA_API void reset_peak_memory_stats();
STRATA_API void set_memory_limit(size_t bytes);  // of reserved bytes; 0 lifts it
STRATA_API void empty_cache();                   // gives cached blocks (shared, and this thread's) back to the system

// Fixed-size objects (tensors, tape nodes): a per-thread list of free slots in front of malloc.
template <class T> class Pool {
 public:
  static void* take() {
    if (!head) [[unlikely]]
      return refill();
    Slot* slot = head;
    head = slot->next, ++room;
    return slot;
  }
  static void give(void* p) {
    if (room == 0) [[unlikely]]
      return give_slow(p);
    head = new (p) Slot{head}, --room;
  }

 private:
  struct Slot {
    Slot* next;
  };
  struct Janitor {
    ~Janitor() {
      room = 0, ended = true;
      while (head) std::free(std::exchange(head, head->next));
    }
  };
  // The list is opened on a thread's first slow path, which alone pays for the thread-exit hook. A thread that only frees
  // what others made opens it too: what it keeps must not be lost with it.
  static void open() {
    if (opened) return;
    static thread_local Janitor janitor;
    (void)janitor;
    opened = true, room = kKeep;
  }
  [[gnu::noinline]] static void give_slow(void* p) {
    if (!opened && !ended) return open(), give(p);
    std::free(p);
  }
  [[gnu::noinline]] static void* refill() {
    if (!ended) open();
    if (void* p = std::aligned_alloc(alignof(T), (sizeof(T) + alignof(T) - 1) / alignof(T) * alignof(T))) return p;
    throw std::bad_alloc();
  }
  static constexpr int kKeep = 1024;
  STRATA_THREAD_LOCAL static inline Slot* head = nullptr;
  STRATA_THREAD_LOCAL static inline int room = 0;  // slots the list still takes
  STRATA_THREAD_LOCAL static inline bool opened = false, ended = false;
};

}  // namespace strata
