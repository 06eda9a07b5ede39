// Sample arguments of ops, as text, for tests, gradient checks, benchmarks and docs of both languages.
//
//   f(3,4) normal   p(..) in (0.1, 3)   u(..) in (-0.95, 0.95)   o(..) in (1.1, 3)   z(..) in (0.05, 0.95)   i5(..) integers 0..4   b(..) booleans
//   w(..) float32 in (0.1, 3), for any dtype of the other tensors   q8(..) int8, q4(..) uint8 and q32(..) int32 of all values
//   s(4,4) symmetric positive definite   m(4,4) well-conditioned   f() zero-dimensional   f(0,3) empty
//   t[3, 2, 1] an int64 tensor of these values   t[[1, 2], [3, 4]] of two rows   t32[3, 2] of int32
//   2  -1.5  True  None  'text'  float32  [1, 2]  [f(3), f(4)]  name=value
// A text that starts with '~' is for floating dtypes only; '!' marks a gradient that is not the derivative, by
// definition.
#pragma once
#include <deque>
#include <memory>

#include "record/op.h"

namespace strata {

class STRATA_API Sample {
 public:
  // Tensors of letters f p u o s m get dtype `values`; for an integer or bool type, small integers of it.
  Sample(const OpRecord& op, const char* text, DType values = DType::F32, uint64_t seed = 0);
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;
  Args args;                    // complete, including defaults
  std::vector<uint32_t> given;  // indices of the parameters in the text, in order
  std::vector<Tensor> tensors;  // tensors of the letters above, in order, including those in lists

  // Replaces tensors[k] by a tensor of the same shape.
  void replace(size_t k, Tensor t);
  void move_to(Device device);  // all tensors, including indices

 private:
  friend class SampleParser;
  void exchange(const TensorImpl* before, const Tensor& now);
  std::deque<std::vector<int64_t>> ints_;
  std::deque<std::vector<double>> floats_;
  std::deque<std::vector<Tensor>> lists_;
  std::deque<std::string> strings_;
  std::vector<Tensor> all_;  // keeps every tensor alive
};

}  // namespace strata
