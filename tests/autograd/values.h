#pragma once
#include <gtest/gtest.h>

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata::testing {

using Numbers = std::vector<double>;

inline Tensor values(std::initializer_list<double> l, DType dtype = kFloat64) {
  Tensor t = make_tensor(Shape({static_cast<int64_t>(l.size())}), kFloat64);
  std::copy(l.begin(), l.end(), t.data<double>());
  return to(t, dtype);
}
inline Tensor leaf(std::initializer_list<double> l, DType dtype = kFloat64) {
  return values(l, dtype).set_requires_grad();
}
inline Numbers numbers(const Tensor& t) {
  if (!t) return {};
  const Tensor d = to(contiguous(autograd::detach(t)), kFloat64);
  return {d.data<double>(), d.data<double>() + d.numel()};
}
inline Tensor grad_of(const Tensor& out, const Tensor& input, bool retain = false, bool create = false) {
  return autograd::grad({&out, 1}, {&input, 1}, {}, retain, create)[0];
}

}  // namespace strata::testing
