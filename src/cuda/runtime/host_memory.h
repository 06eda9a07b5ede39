// Pinned host memory: page-locked, so that copies to and from a device overlap with other work. Blocks are cached, and
// a freed block waits for the copies that still use it.
#pragma once
#include <map>
#include <mutex>
#include <vector>

#include "cuda/runtime/event.h"
#include "tensor/allocator.h"

namespace strata::cuda {

class STRATA_API HostMemory {
 public:
  static HostMemory& of(DeviceType type);
  Ref<Storage> allocate(Gpu& gpu, size_t bytes);
  bool holds(const void* p) const;               // whether it is in one of these blocks
  void used_by(const void* p, const Stream& s);  // a copy in this stream reads or writes the block at p
  void empty_cache();
  void drop(const Gpu& gpu);  // frees unused memory pinned by a device that is destroyed
  size_t bytes_reserved() const;

 private:
  struct Block {
    HostMemory* owner;
    Gpu* gpu;
    std::byte* data;
    size_t size;
    std::vector<Event> uses;  // copies that may not have finished
  };
  static void release(void* block);
  bool idle(Block& b);
  Block* find(const void* p) const;

  mutable std::mutex mutex_;
  std::map<const std::byte*, Block*> blocks_;  // by address
  std::multimap<size_t, Block*> free_;         // by size
};

}  // namespace strata::cuda
