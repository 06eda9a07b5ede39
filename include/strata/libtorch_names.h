// Names and forms of libtorch: a dtype alone as the options of random tensors and eye, types of arguments, and printing.
#pragma once
#include <algorithm>
#include <ostream>
#include <vector>

#include "nn/module.h"
#include "strata/ops.h"
#include "tensor/values.h"

namespace strata {

using IntArrayRef = Shape;
using ScalarType = DType;

inline Tensor rand(IntList size, DType dtype) { return rand(size, TensorOptions(dtype)); }
inline Tensor randn(IntList size, DType dtype) { return randn(size, TensorOptions(dtype)); }
inline Tensor randint(int64_t high, IntList size, DType dtype) { return randint(high, size, TensorOptions(dtype)); }
inline Tensor randint(int64_t low, int64_t high, IntList size, DType dtype) {
  return randint(low, high, size, TensorOptions(dtype));
}
inline Tensor randperm(int64_t n, DType dtype) { return randperm(n, TensorOptions(dtype)); }
inline Tensor normal(double mean, double std, IntList size, DType dtype) {
  return normal(mean, std, size, TensorOptions(dtype));
}
inline Tensor eye(int64_t n, DType dtype) { return eye(n, TensorOptions(dtype)); }

inline bool operator==(Shape a, Shape b) { return std::ranges::equal(a, b); }  // x.sizes() == y.sizes()
inline bool operator==(Shape a, const std::vector<int64_t>& b) { return std::ranges::equal(a, b); }

inline std::ostream& operator<<(std::ostream& out, const Device& device) { return out << to_string(device); }
inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }
inline std::ostream& operator<<(std::ostream& out, Shape sizes) { return out << to_string(sizes); }

namespace nn {
inline std::ostream& operator<<(std::ostream& out, const Module& module) { return out << module.repr(); }
}  // namespace nn

}  // namespace strata
