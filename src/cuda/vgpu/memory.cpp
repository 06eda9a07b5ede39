// Device memory: first fit over a reserved range.
#include "cuda/vgpu/memory.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/error.h"

namespace strata::cuda::vgpu {

namespace {
uint64_t rounded(uint64_t bytes) { return (bytes + 255) & ~uint64_t{255}; }
constexpr uint64_t kGuard = 4096;  // past the last block, so that `top_` never meets the end
}  // namespace

Memory::Memory(uint64_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  STRATA_CHECK(p != MAP_FAILED, OutOfMemory,
               "vgpu: cannot reserve {} bytes of addresses for the device's memory; give the device profile less",
               bytes);
  begin_ = top_ = reinterpret_cast<uint64_t>(p);
  end_ = begin_ + bytes;
}

Memory::~Memory() { munmap(reinterpret_cast<void*>(begin_), end_ - begin_); }

uint64_t Memory::allocate(uint64_t bytes, uint64_t align) {
  if (bytes == 0 || bytes > capacity()) return 0;
  const uint64_t size = rounded(bytes);
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    const uint64_t begin = (hole->first + align - 1) & ~(align - 1), skip = begin - hole->first;
    if (hole->second < skip || hole->second - skip < size) continue;
    const uint64_t rest = hole->second - skip - size, first = hole->first;
    holes_.erase(hole);
    if (skip) holes_[first] = skip;
    if (rest) holes_[begin + size] = rest;
    blocks_[begin] = bytes;
    used_ += size;
    return begin;
  }
  const uint64_t begin = (top_ + align - 1) & ~(align - 1);
  if (begin + kGuard > end_ || size > end_ - kGuard - begin) return 0;
  if (begin != top_) holes_[top_] = begin - top_;
  top_ = begin + size;
  blocks_[begin] = bytes;
  used_ += size;
  return begin;
}

bool Memory::release(uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return false;
  uint64_t begin = address, bytes = rounded(block->second);
  used_ -= bytes;
  blocks_.erase(block);
  if (bytes >= 1 << 16) madvise(reinterpret_cast<void*>(begin), bytes, MADV_DONTNEED);  // the pages go back
  auto next = holes_.lower_bound(begin);
  if (next != holes_.end() && next->first == begin + bytes) {
    bytes += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      holes_.erase(before);
    }
  }
  if (begin + bytes == top_) top_ = begin;
  else holes_[begin] = bytes;
  return true;
}

std::optional<Memory::Block> Memory::find(uint64_t address) const {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return std::nullopt;
  --next;
  if (address - next->first >= next->second) return std::nullopt;
  return Block{next->first, next->second};
}

bool Memory::valid(uint64_t address, uint64_t bytes) const {
  const auto block = find(address);
  return (block && bytes <= block->bytes - (address - block->begin)) || in_host(address, bytes);
}

bool Memory::add_host(uint64_t address, uint64_t bytes) { return host_.emplace(address, bytes).second; }
bool Memory::remove_host(uint64_t address) { return host_.erase(address) == 1; }

bool Memory::in_host(uint64_t address, uint64_t bytes) const {
  auto next = host_.upper_bound(address);
  if (next == host_.begin()) return false;
  --next;
  return address - next->first < next->second && bytes <= next->second - (address - next->first);
}

}  // namespace strata::cuda::vgpu
