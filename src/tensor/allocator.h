// CPU memory: size classes, 64-byte alignment, freed blocks are cached. After the first time, outputs cause no page
// faults.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "base/api.h"
#include "base/ref.h"

namespace strata {

// Values that kernels derive from a storage's data and cache, such as reordered weights. Freed with the storage.
struct STRATA_API Derived {
  virtual ~Derived() = default;
};

// The memory of one or more tensors. Memory from our allocator follows this header (one cache line) in the same block;
// external memory (NumPy, DLPack, a mapped file) is released through `release`.
struct STRATA_API alignas(64) Storage {
  std::atomic<int32_t> refs;
  std::atomic<uint32_t> version{0};  // number of in-place writes, compared by saved tensors
  std::atomic<uint32_t> unseen{0};   // writes through .data, which saved tensors ignore and caches do not
  uint16_t size_class = 0;           // of external memory: see tensor/promise.h
  bool external : 1 = false, read_only : 1 = false;  // these three are set before the storage is shared
  bool pinned : 1 = false;                           // page-locked host memory
  bool shared = false;   // the address was given to other code (NumPy, DLPack), which may write at any time
  size_t capacity = 0;   // usable bytes
  size_t requested = 0;  // requested bytes, for the statistics
  std::byte* data = nullptr;
  union {
    Storage* next;           // link in a free list
    void (*release)(void*);  // for external memory
  };
  void* owner = nullptr;                   // argument of release; of own memory, see tensor/promise.h
  std::atomic<Derived*> derived{nullptr};  // guarded by its creator (cpu/packed.cpp)

  // Counts all writes; compared by caches of derived values.
  uint64_t writes() const {
    return uint64_t{version.load(std::memory_order_relaxed)} + unseen.load(std::memory_order_relaxed);
  }
  // not an atomic increment: concurrent writers race on the values anyway
  static void add_one(std::atomic<uint32_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  static void destroy(Storage*);
};

STRATA_API Ref<Storage> allocate(size_t bytes);  // throws OutOfMemory, which lists who holds how much
STRATA_API Ref<Storage> adopt_memory(void* data, size_t bytes, void (*release)(void*), void* owner);

struct MemoryStats {
  size_t allocated_bytes;       // requested bytes of live tensors
  size_t peak_allocated_bytes;  // maximum so far, sampled at allocations above 64 KiB
  size_t reserved_bytes;        // taken from the system: live and cached
  size_t cached_bytes;          // kept for reuse
  size_t system_allocations;    // requests to the system
  size_t allocations;           // requests to the allocator
  size_t limit_bytes;           // 0: no limit
};
STRATA_API MemoryStats memory_stats();
STRATA_API void reset_peak_memory_stats();
STRATA_API void set_memory_limit(size_t bytes);  // of reserved bytes; 0: no limit
STRATA_API void empty_cache();                   // returns cached blocks (shared, and this thread's) to the system

// Fixed-size objects (tensors, tape nodes): a per-thread free list in front of malloc.
template <class T> class Pool {
 public:
  static void* take() {
    if (!head) [[unlikely]]
      return refill();
    Slot* slot = head;
    head = slot->next;
    ++room;
    return slot;
  }
  static void give(void* p) {
    if (room == 0) [[unlikely]]
      return give_slow(p);
    head = new (p) Slot{head};
    --room;
  }

 private:
  struct Slot {
    Slot* next;
  };
  struct Janitor {
    ~Janitor() {
      room = 0;
      ended = true;
      while (head) std::free(std::exchange(head, head->next));
    }
  };
  // A thread opens its list on its first slow path, which registers the thread-exit hook. A thread that only frees
  // objects of other threads does so too, so that its list is freed at exit.
  static void open() {
    if (opened) return;
    static thread_local Janitor janitor;
    (void)janitor;
    opened = true;
    room = kKeep;
  }
  [[gnu::noinline]] static void give_slow(void* p) {
    if (!opened && !ended) {
      open();
      return give(p);
    }
    std::free(p);
  }
  [[gnu::noinline]] static void* refill() {
    if (!ended) open();
    if (void* p = std::aligned_alloc(alignof(T), (sizeof(T) + alignof(T) - 1) / alignof(T) * alignof(T))) return p;
    throw std::bad_alloc();
  }
  static constexpr int kKeep = 1024;
  STRATA_THREAD_LOCAL static inline Slot* head = nullptr;
  STRATA_THREAD_LOCAL static inline int room = 0;  // free capacity of the list
  STRATA_THREAD_LOCAL static inline bool opened = false, ended = false;
};

}  // namespace strata
