// Promised memory: a storage whose values are not computed yet. A compiled function defers ops and gives their results such
// storages (dispatch/deferred.h). Kernels get computed values from dispatch; everything else that reads or hands out memory
// calls need_values() first.
#pragma once
#include <atomic>

#include "tensor/allocator.h"

namespace strata {

struct TensorImpl;

// Computes the values of promised storages. Objects of this type are never destroyed, so that any thread may call them.
struct STRATA_API Promiser {
  // Computes all values that it has promised. `why` is for reports: the name of the op or method that needs them.
  virtual void keep(const char* why) = 0;
  // A kernel of a device is about to be launched on this thread. Computes what it may read, unless dispatch has done so.
  virtual void before_launch(const char* kernel) = 0;
  // This storage is destroyed: its values are not needed any more.
  virtual void drop(const Storage& storage) = 0;

  // Its place in promisers, for storages of devices; 0: all places are taken, and it promises nothing there.
  const uint16_t place;

 protected:
  Promiser();
  ~Promiser() = default;
};
constexpr size_t kMostPromisers = 4096;
STRATA_API extern Promiser* promisers[kMostPromisers];

// Number of threads that have promised values; 0 in a process that compiles nothing.
STRATA_API extern std::atomic<int> promising;
// The promiser of this thread, or null.
STRATA_API STRATA_THREAD_LOCAL_DECL extern thread_local constinit Promiser* own_promiser;

// Whose values they are, or null if they are computed. Memory of our own allocator has no other owner; that of a device, which is
// external, has no size class.
inline Promiser* promiser_of(const Storage& s) {
  auto& storage = const_cast<Storage&>(s);
  if (s.external) return promisers[std::atomic_ref<uint16_t>(storage.size_class).load(std::memory_order_acquire)];
  return static_cast<Promiser*>(std::atomic_ref<void*>(storage.owner).load(std::memory_order_acquire));
}
inline void set_promiser(Storage& s, Promiser* promiser) {
  if (s.external) {
    std::atomic_ref<uint16_t>(s.size_class).store(promiser ? promiser->place : 0, std::memory_order_release);
  } else {
    std::atomic_ref<void*>(s.owner).store(promiser, std::memory_order_release);
  }
}

// Is told what this thread looks at besides the arguments of ops; a thread that has one counts in `promising`.
struct STRATA_API ReadObserver {
  virtual void reads(const Storage* memory, const char* why) = 0;
  virtual void looks_at_grad(const TensorImpl& t) = 0;  // before it gets t.grad, for any use
  virtual void sets_generator() = 0;                    // it is about to move a generator to another position

 protected:
  ~ReadObserver() = default;
};
STRATA_API STRATA_THREAD_LOCAL_DECL extern thread_local constinit ReadObserver* own_read_observer;

[[gnu::cold]] void drop_promise(Storage& s);  // the storage is destroyed
[[gnu::cold]] STRATA_API void keep_promises(const Storage* s, const char* why);
// Before values of a tensor are read, or its address is given to somebody who may write to it: everything that this thread
// has deferred is computed, since it may read that memory; so are the values themselves.
inline void need_values(const Storage* s, const char* why) {
  if (promising.load(std::memory_order_relaxed)) [[unlikely]]
    keep_promises(s, why);
}

[[gnu::cold]] void tell_of_grad(const TensorImpl& t);
[[gnu::cold]] void tell_of_generator();

}  // namespace strata
