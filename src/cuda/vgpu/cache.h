// A model of the second-level cache: 16 ways of 128-byte lines in sectors of 32 bytes, least recently used out first.
#pragma once
#include <cstdint>
#include <vector>

#include "cuda/vgpu/checks.h"

namespace strata::cuda::vgpu {

// What a launch moves between the cache and device memory, from a cold cache. Writes fetch nothing; what was written goes
// back when its line is put out, or at the end.
class STRATA_API CacheModel {
 public:
  explicit CacheModel(uint64_t bytes);
  void touch(uint64_t address, uint32_t bytes, Access access);
  void flush();
  uint64_t read() const { return 32 * read_; }
  uint64_t written() const { return 32 * written_; }

 private:
  struct Line {
    uint64_t tag = 0, used = 0;      // used: when last
    uint8_t present = 0, dirty = 0;  // bits of sectors
  };
  Line& line_of(uint64_t tag);
  uint64_t sets_, now_ = 0, read_ = 0, written_ = 0;
  std::vector<Line> lines_;
};

}  // namespace strata::cuda::vgpu
