// Shared parts of the norms over the last dimensions; the norms composed of other ops: for double gradients, and in double as
// references for the kernels.
#pragma once
#include <numeric>
#include <vector>

#include "cpu/staging.h"
#include "strata/ops.h"

namespace strata {

// In double; undefined if the tensor is.
inline Tensor wide(const Tensor& t) { return t ? to(t, DType::F64) : Tensor(); }

inline std::vector<int64_t> last_dims(int count) {
  std::vector<int64_t> dims(static_cast<size_t>(count));
  std::iota(dims.begin(), dims.end(), -count);
  return dims;
}
inline std::vector<int64_t> first_dims(int count) {
  std::vector<int64_t> dims(static_cast<size_t>(count));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// A staged argument that may be None.
template <class T> struct OptionalIn {
  std::optional<cpu::In<T>> in;
  explicit OptionalIn(const Value& v) {
    if (v.tag == Tag::Tensor) in.emplace(*v.tensor);
  }
  const T* get() const { return in ? in->get() : nullptr; }
};

struct Normalized {
  Tensor value, rstd;
};
// (x - mean) / sqrt(var + eps) over dims, as ops on x.
inline Normalized normalized(const Tensor& x, IntList dims, double eps, bool centred) {
  const Tensor deviation = centred ? sub(x, mean(x, dims, true)) : x;
  const Tensor rstd = rsqrt(add(mean(square(deviation), dims, true), eps));
  return {mul(deviation, rstd), rstd};
}
// The gradient of x from the gradient g of the normalized value.
inline Tensor normalized_grad(const Tensor& g, const Normalized& n, IntList dims, bool centred) {
  const Tensor along = mul(n.value, mean(mul(g, n.value), dims, true));
  return mul(n.rstd, centred ? sub(sub(g, mean(g, dims, true)), along) : sub(g, along));
}
// value * weight + bias, each if given.
inline Tensor affine(const Tensor& value, const Tensor& weight, const Tensor& bias) {
  const Tensor scaled = weight ? mul(value, weight) : value;
  return bias ? add(scaled, bias) : scaled;
}

}  // namespace strata
