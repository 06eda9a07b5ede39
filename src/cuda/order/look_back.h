// Memory of a launch with look-back (look_back.cuh), cleared: a word per tile, and a ticket.
#pragma once
#include <array>

#include "cuda/common/tensors.h"
#include "cuda/pointwise/pointwise.h"
#include "record/kernel.h"

namespace strata::cuda {

class LookBack {
 public:
  LookBack(int64_t tiles, Workspace& workspace) : LookBack(workspace.take(tiles + 1, DType::I64)) {}
  LookBack(int64_t tiles, Device device) : LookBack(make_tensor(Shape(std::array{tiles + 1}), DType::I64, device)) {}
  uint64_t ticket() const { return address(*memory_); }
  uint64_t words() const { return address(*memory_) + 8; }

 private:
  explicit LookBack(Tensor memory) : memory_(std::move(memory)) {
    if (memory_.bytes()) fill(*memory_, 0);  // it has no memory while planning
  }
  Tensor memory_;
};

}  // namespace strata::cuda
