#include "cuda/runtime/host_memory.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace strata::cuda {

HostMemory& HostMemory::of(DeviceType type) {
  static auto* const both = new HostMemory[2];  // never deleted: tensors may outlive static objects
  return both[type == DeviceType::Vgpu];
}

HostMemory::Block* HostMemory::find(const void* p) const {
  const auto* at = static_cast<const std::byte*>(p);
  auto next = blocks_.upper_bound(at);
  if (next == blocks_.begin()) return nullptr;
  Block* b = std::prev(next)->second;
  return at < b->data + b->size ? b : nullptr;
}

bool HostMemory::idle(Block& b) {
  std::erase_if(b.uses, [](const Event& e) { return e.query(); });
  return b.uses.empty();
}

Ref<Storage> HostMemory::allocate(Gpu& gpu, size_t bytes) {
  gpu.activate();
  const size_t size = std::bit_ceil(std::max<size_t>(bytes, 4096));
  std::lock_guard lock(mutex_);
  Block* b = nullptr;
  for (auto [it, end] = free_.equal_range(size); it != end && !b; ++it)
    if (it->second->gpu == &gpu && idle(*it->second)) {
      b = it->second;
      free_.erase(it);
      break;
    }
  if (!b) {
    void* data = nullptr;
    const driver::CUresult r = gpu.table().cuMemHostAlloc(&data, size, 0);
    STRATA_CHECK(r != driver::kOutOfMemory, OutOfMemory, "pin_memory: the system has no {} bytes of page-locked memory",
                 size);
    gpu.check(r, "allocate pinned memory");
    b = new Block{this, &gpu, static_cast<std::byte*>(data), size, {}};
    blocks_[b->data] = b;
  }
  Ref<Storage> s = adopt_memory(b->data, bytes, release, b);
  s->pinned = true;
  return s;
}

void HostMemory::release(void* block) {
  auto* b = static_cast<Block*>(block);
  std::lock_guard lock(b->owner->mutex_);
  b->owner->free_.emplace(b->size, b);
}

bool HostMemory::holds(const void* p) const {
  std::lock_guard lock(mutex_);
  return find(p) != nullptr;
}

void HostMemory::used_by(const void* p, const Stream& s) {
  try {
    Event e(s.gpu());
    e.record(s);
    std::lock_guard lock(mutex_);
    if (Block* b = find(p)) {
      if (b->uses.size() > 16) idle(*b);
      b->uses.push_back(std::move(e));
    }
  } catch (...) {  // completion cannot be tracked: wait for the copy
    if (s.gpu().enter()) s.gpu().table().cuStreamSynchronize(s.handle());
    throw;
  }
}

void HostMemory::drop(const Gpu& gpu) {
  std::lock_guard lock(mutex_);
  std::erase_if(free_, [&](const auto& entry) {
    Block* b = entry.second;
    if (b->gpu != &gpu) return false;
    gpu.table().cuMemFreeHost(b->data);  // waits for copies
    blocks_.erase(b->data);
    delete b;
    return true;
  });
}

void HostMemory::empty_cache() {
  std::lock_guard lock(mutex_);
  for (auto it = free_.begin(); it != free_.end();) {
    Block* b = it->second;
    for (const Event& e : b->uses) e.synchronize();
    b->gpu->activate();
    b->gpu->check(b->gpu->table().cuMemFreeHost(b->data), "free pinned memory");
    blocks_.erase(b->data);
    delete b;
    it = free_.erase(it);
  }
}

size_t HostMemory::bytes_reserved() const {
  std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [at, b] : blocks_) sum += b->size;
  return sum;
}

}  // namespace strata::cuda
