// The cache model's lines.
#include "cuda/vgpu/cache.h"

#include <algorithm>
#include <bit>

namespace strata::cuda::vgpu {

namespace {
constexpr uint64_t kWays = 16, kLine = 128, kSector = 32;
}

CacheModel::CacheModel(uint64_t bytes) : sets_(std::max<uint64_t>(bytes / (kWays * kLine), 1)), lines_(sets_ * kWays) {}

CacheModel::Line& CacheModel::line_of(uint64_t tag) {
  Line* const set = &lines_[(tag * 0x9e3779b97f4a7c15u >> 20) % sets_ * kWays];  // hash the sets, as GPUs do
  Line* oldest = set;
  for (Line* l = set; l != set + kWays; ++l) {
    if (l->present && l->tag == tag) return *l;
    if (l->used < oldest->used) oldest = l;
  }
  written_ += static_cast<uint64_t>(std::popcount(oldest->dirty));
  *oldest = {tag, 0, 0, 0};
  return *oldest;
}

void CacheModel::touch(uint64_t address, uint32_t bytes, Access access) {
  for (uint64_t s = address / kSector; s <= (address + bytes - 1) / kSector; ++s) {
    Line& l = line_of(s / (kLine / kSector));
    const auto bit = static_cast<uint8_t>(1u << s % (kLine / kSector));
    if (access != Access::Write && !(l.present & bit)) ++read_;
    l.present |= bit;
    if (access != Access::Read) l.dirty |= bit;
    l.used = ++now_;
  }
}

void CacheModel::flush() {
  for (Line& l : lines_) {
    written_ += static_cast<uint64_t>(std::popcount(l.dirty));
    l.dirty = 0;
  }
}

}  // namespace strata::cuda::vgpu
