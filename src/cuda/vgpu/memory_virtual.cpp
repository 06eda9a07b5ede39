// Virtual memory management of device memory: reserved addresses, created memory, and mappings between them.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "cuda/vgpu/memory.h"

namespace strata::cuda::vgpu {

namespace {
bool whole(uint64_t n) { return n != 0 && n % Memory::kGranule == 0; }
void* at(uint64_t address) { return reinterpret_cast<void*>(address); }
constexpr int kBoth = PROT_READ | PROT_WRITE;
}  // namespace

// Addresses are plentiful: released ones are not reused, so a stale address stays stale.
uint64_t Memory::reserve(uint64_t bytes, uint64_t align) {
  constexpr uint64_t kMost = uint64_t{1} << 44;
  if (!whole(bytes) || bytes > kMost || align > kMost || (align & (align - 1))) return 0;
  if (!virtual_begin_) {
    uint64_t size = std::max<uint64_t>(256 * capacity(), uint64_t{64} << 30);
    const auto take = [&] { return mmap(nullptr, size, kBoth, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); };
    void* p = take();
    for (; p == MAP_FAILED && size >= 8 * capacity(); p = take()) size /= 4;  // sanitizers leave less room
    if (p == MAP_FAILED) return 0;
    virtual_begin_ = reinterpret_cast<uint64_t>(p);
    virtual_end_ = virtual_begin_ + size;
    virtual_top_ = (virtual_begin_ + kGranule - 1) & ~(kGranule - 1);
  }
  align = std::max(align, kGranule);
  const uint64_t begin = (virtual_top_ + align - 1) & ~(align - 1);
  if (begin > virtual_end_ || bytes > virtual_end_ - begin) return 0;
  virtual_top_ = begin + bytes;
  reserved_[begin] = bytes;
  return begin;
}

bool Memory::unreserve(uint64_t address, uint64_t bytes) {
  const auto r = reserved_.find(address);
  if (r == reserved_.end() || r->second != bytes) return false;
  const auto m = mapped_.lower_bound(address);
  if (m != mapped_.end() && m->first < address + bytes) return false;
  reserved_.erase(r);
  return true;
}

uint64_t Memory::create(uint64_t bytes) {
  if (!whole(bytes) || bytes > capacity() || used_ > capacity() - bytes) return 0;
  // All of it is in one file, one piece after the other: a process may have more pieces than open files.
  if (file_ < 0) file_ = memfd_create("strata-vgpu", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(file_end_ + bytes)) != 0) return 0;
  used_ += bytes;
  physical_[++handles_] = {file_end_, bytes, 0, false};
  file_end_ += bytes;
  return handles_;
}

void Memory::drop(uint64_t handle) {
  const auto p = physical_.find(handle);
  if (p == physical_.end() || !p->second.released || p->second.mapped) return;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(p->second.at),
            static_cast<off_t>(p->second.bytes));  // return the pages
  used_ -= p->second.bytes;
  physical_.erase(p);
}

bool Memory::destroy(uint64_t handle) {
  const auto p = physical_.find(handle);
  if (p == physical_.end() || p->second.released) return false;
  p->second.released = true;
  drop(handle);
  return true;
}

bool Memory::map(uint64_t address, uint64_t bytes, uint64_t handle) {
  const auto p = physical_.find(handle);
  if (p == physical_.end() || p->second.released || p->second.bytes != bytes || address % kGranule) return false;
  auto r = reserved_.upper_bound(address);
  if (r == reserved_.begin()) return false;
  --r;
  if (address - r->first >= r->second || bytes > r->second - (address - r->first)) return false;
  const auto next = mapped_.lower_bound(address);
  if (next != mapped_.end() && next->first < address + bytes) return false;
  if (next != mapped_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address) return false;
  if (mmap(at(address), bytes, kBoth, MAP_SHARED | MAP_FIXED, file_, static_cast<off_t>(p->second.at)) == MAP_FAILED)
    return false;
  mapped_[address] = {bytes, handle, false};
  ++p->second.mapped;
  return true;
}

bool Memory::unmap(uint64_t address, uint64_t bytes) {
  uint64_t covered = 0;
  for (auto m = mapped_.find(address); m != mapped_.end() && m->first == address + covered && covered < bytes; ++m)
    covered += m->second.bytes;
  if (covered != bytes || bytes == 0) return false;
  if (mmap(at(address), bytes, kBoth, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    return false;
  for (auto m = mapped_.find(address); m != mapped_.end() && m->first < address + bytes; m = mapped_.erase(m)) {
    const uint64_t handle = m->second.handle;
    --physical_[handle].mapped;
    drop(handle);
  }
  return true;
}

bool Memory::set_access(uint64_t address, uint64_t bytes, bool allowed) {
  uint64_t covered = 0;
  for (auto m = mapped_.find(address); m != mapped_.end() && m->first == address + covered && covered < bytes; ++m)
    covered += m->second.bytes;
  if (covered != bytes || bytes == 0) return false;
  for (auto m = mapped_.find(address); m != mapped_.end() && m->first < address + bytes; ++m)
    m->second.allowed = allowed;
  return true;
}

bool Memory::in_mapped(uint64_t address, uint64_t bytes) const {
  while (bytes) {  // over adjacent mappings
    auto m = mapped_.upper_bound(address);
    if (m == mapped_.begin()) return false;
    --m;
    const uint64_t inside = address - m->first;
    if (inside >= m->second.bytes || !m->second.allowed) return false;
    const uint64_t here = std::min(bytes, m->second.bytes - inside);
    address += here;
    bytes -= here;
  }
  return true;
}

}  // namespace strata::cuda::vgpu
