// A model of the L2 cache: 16-way, 128-byte lines in 32-byte sectors, least recently used replacement.
#pragma once
#include <cstdint>
#include <vector>

#include "cuda/vgpu/checks.h"

namespace strata::cuda::vgpu {

// Bytes that a launch moves between the cache and device memory, starting with an empty cache. Writes fetch nothing;
// dirty sectors are written back when their line is evicted, or at the end.
class STRATA_API CacheModel {
 public:
  explicit CacheModel(uint64_t bytes);
  void touch(uint64_t address, uint32_t bytes, Access access);
  void flush();
  uint64_t read() const { return 32 * read_; }
  uint64_t written() const { return 32 * written_; }

 private:
  struct Line {
    uint64_t tag = 0, used = 0;      // used: time of last use
    uint8_t present = 0, dirty = 0;  // bit masks of sectors
  };
  Line& line_of(uint64_t tag);
  uint64_t sets_, now_ = 0, read_ = 0, written_ = 0;
  std::vector<Line> lines_;
};

}  // namespace strata::cuda::vgpu
