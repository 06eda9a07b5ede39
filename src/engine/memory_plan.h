// One piece of memory for all values of a run that are not alive at the same time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/api.h"

namespace strata::engine {

// The memory of a value, from the step that writes it to the last one that reads it.
struct Block {
  size_t bytes = 0;
  uint32_t first = 0, last = 0;
  size_t offset = 0;
};
constexpr size_t kBlockAlignment = 256;  // what kernels of GPUs and CPUs ask for at most

// Sets the offsets, and returns how many bytes all blocks need together. Blocks must be in the order of `first`. What it needs is
// seldom more than the blocks that are alive at one time.
STRATA_API size_t place(std::vector<Block>& blocks);
// The largest sum of blocks that are alive at one time: no plan needs less.
STRATA_API size_t least_bytes(const std::vector<Block>& blocks);
// What is wrong with a plan: two blocks that share bytes at the same time, or one past the end. Empty: nothing.
STRATA_API std::string fault_of(const std::vector<Block>& blocks, size_t bytes);

}  // namespace strata::engine
