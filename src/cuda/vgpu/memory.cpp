// Device memory: first fit over a reserved range.
#include "cuda/vgpu/memory.h"

#include <fmt/core.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace strata::cuda::vgpu {

namespace {
uint64_t rounded(uint64_t bytes) { return (bytes + 255) & ~uint64_t{255}; }
constexpr size_t kRemembered = 256;  // freed blocks, for messages
constexpr uint64_t kGuard = 4096;    // after the last block, so that `top_` never reaches the end
}  // namespace

Memory::Memory(uint64_t bytes, uint64_t gap) : gap_(rounded(gap)) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  STRATA_CHECK(p != MAP_FAILED, OutOfMemory,
               "vgpu: cannot reserve {} bytes of addresses for the device's memory; give the device profile less",
               bytes);
  begin_ = top_ = reinterpret_cast<uint64_t>(p);
  end_ = begin_ + bytes;
}

Memory::~Memory() {
  munmap(reinterpret_cast<void*>(begin_), end_ - begin_);
  if (virtual_begin_) munmap(reinterpret_cast<void*>(virtual_begin_), virtual_end_ - virtual_begin_);
  if (file_ >= 0) close(file_);
  if (written_) munmap(written_, end_ - begin_);
}

void Memory::open_to_host(bool open) const {
  constexpr uint64_t kPage = 4096;
  const uint64_t used = (top_ - begin_ + kGuard + kPage - 1) / kPage * kPage;
  const int access = open ? PROT_READ | PROT_WRITE : PROT_NONE;
  mprotect(reinterpret_cast<void*>(begin_), std::min(used, capacity()), access);
  if (virtual_begin_) mprotect(reinterpret_cast<void*>(virtual_begin_), virtual_top_ - virtual_begin_, access);
}

void Memory::track() {
  if (written_) return;
  void* p = mmap(nullptr, capacity(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  STRATA_CHECK(p != MAP_FAILED, OutOfMemory, "vgpu: cannot reserve {} bytes of addresses for the init check",
               capacity());
  written_ = static_cast<uint8_t*>(p);
  for (const auto& [begin, bytes] : blocks_) mark_written(begin, bytes);  // earlier writes are unknown
}

void Memory::fresh(uint64_t begin, uint64_t bytes) {
  blocks_[begin] = bytes;
  if (written_) std::memset(written_ + (begin - begin_), 0, bytes);
}

void Memory::mark_written(uint64_t address, uint64_t bytes) const {
  if (written_ && own(address)) std::memset(written_ + (address - begin_), 1, std::min(bytes, end_ - address));
}

void Memory::copy_written(uint64_t to, uint64_t from, uint64_t bytes) const {
  if (!written_ || !own(to)) return;
  if (own(from)) std::memmove(written_ + (to - begin_), written_ + (from - begin_), bytes);
  else mark_written(to, bytes);
}

int64_t Memory::first_unwritten(uint64_t address, uint64_t bytes) const {
  if (!written_ || !own(address)) return -1;
  const uint8_t* at = written_ + (address - begin_);
  for (uint64_t k = 0; k < bytes; ++k)
    if (!at[k]) return static_cast<int64_t>(k);
  return -1;
}

std::string Memory::describe(uint64_t address) const {
  if (const auto b = find(address))
    return fmt::format("byte {} of an allocation of {} bytes", address - b->begin, b->bytes);
  for (auto r = released_.rbegin(); r != released_.rend(); ++r)
    if (address - r->first < r->second)
      return fmt::format("byte {} of an allocation of {} bytes that was freed", address - r->first, r->second);
  const auto next = blocks_.upper_bound(address);
  const auto before = next == blocks_.begin() ? blocks_.end() : std::prev(next);
  constexpr uint64_t kNear = 1 << 20;
  if (before != blocks_.end() && address - before->first - before->second < kNear)
    return fmt::format("{} bytes behind an allocation of {} bytes", address - before->first - before->second,
                       before->second);
  if (next != blocks_.end() && next->first - address < kNear)
    return fmt::format("{} bytes before an allocation of {} bytes", next->first - address, next->second);
  return "no allocation is near";
}

uint64_t Memory::allocate(uint64_t bytes, uint64_t align) {
  if (bytes == 0 || bytes > capacity()) return 0;
  const uint64_t size = rounded(bytes) + gap_;
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    const uint64_t begin = (hole->first + align - 1) & ~(align - 1), skip = begin - hole->first;
    if (hole->second < skip || hole->second - skip < size) continue;
    const uint64_t rest = hole->second - skip - size, first = hole->first;
    holes_.erase(hole);
    if (skip) holes_[first] = skip;
    if (rest) holes_[begin + size] = rest;
    fresh(begin, bytes);
    used_ += size - gap_;
    return begin;
  }
  const uint64_t begin = (top_ + align - 1) & ~(align - 1);
  if (begin + kGuard > end_ || size > end_ - kGuard - begin) return 0;
  if (begin != top_) holes_[top_] = begin - top_;
  top_ = begin + size;
  fresh(begin, bytes);
  used_ += size - gap_;
  return begin;
}

bool Memory::release(uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return false;
  uint64_t begin = address, bytes = rounded(block->second);
  used_ -= bytes;
  bytes += gap_;
  released_.emplace_back(address, block->second);
  if (released_.size() > kRemembered) released_.pop_front();
  blocks_.erase(block);
  if (bytes >= 1 << 16) madvise(reinterpret_cast<void*>(begin), bytes, MADV_DONTNEED);  // return the pages
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
  return (block && bytes <= block->bytes - (address - block->begin)) || in_host(address, bytes) ||
         in_mapped(address, bytes) || std::any_of(peers_.begin(), peers_.end(), [&](const Memory* p) {
           return p->own(address) && p->valid(address, bytes);
         });
}

bool Memory::in_peer(uint64_t address, uint64_t bytes) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const Memory* p) { return p->own(address) && p->reachable(address, bytes); });
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
