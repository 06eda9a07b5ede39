// Programs as networks: a function of tensors is followed at the sizes of its inputs, or at several for sizes that vary.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/network.h"

namespace strata::engine {

// An input of a program: one shape, or the smallest, usual and largest one.
struct Input {
  std::vector<int64_t> min, opt, max;
  DType dtype = DType::F32;
  std::string name = {};  // default: input_0, ...
  Input(std::vector<int64_t> shape, DType type = DType::F32)
      : min(shape), opt(shape), max(std::move(shape)), dtype(type) {}
  Input(std::vector<int64_t> smallest, std::vector<int64_t> usual, std::vector<int64_t> largest,
        DType type = DType::F32)
      : min(std::move(smallest)), opt(std::move(usual)), max(std::move(largest)), dtype(type) {}
};

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// The network of a program, which must make the same calls for all sizes: throws Runtime, with the line, if it does not. Sizes that
// vary are at most four; sizes of one axis with the same limits are one, if the program needs that.
STRATA_API std::shared_ptr<const Network> trace(const TensorFunction& program, const std::vector<Input>& inputs,
                                                Device device = {});

}  // namespace strata::engine
