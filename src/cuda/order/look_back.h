// Memory of a launch with look-back (look_back.cuh), cleared: a word per tile, and a ticket.
#pragma once
#include <array>

#include "cuda/common/tensors.h"
#include "cuda/pointwise/pointwise.h"

namespace strata::cuda {

class LookBack {
 public:
  LookBack(int64_t tiles, Device device) : memory_(make_tensor(Shape(std::array{tiles + 1}), DType::I64, device)) {
    fill(*memory_, 0);
  }
  uint64_t ticket() const { return address(*memory_); }
  uint64_t words() const { return address(*memory_) + 8; }

 private:
  Tensor memory_;
};

}  // namespace strata::cuda
