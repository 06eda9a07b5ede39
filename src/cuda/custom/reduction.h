// Reductions from formulas: a map of the inputs, a combination of two values, and a last step. One kernel is compiled per
// combination of dtypes when it is first needed.
//
//   const cuda::ReductionKernel norm("T x", "T y", {.map = "x * x", .reduce = "a + b", .post = "y = sqrt(a)",
//                                                   .identity = "0"}, "norm");
//   const Tensor lengths = norm({x}, {.axes = {{1}}})[0];
#pragma once
#include <optional>

#include "cuda/custom/elementwise.h"

namespace strata::cuda {

// C++ expressions and, in `post`, statements that assign the outputs. `n` is the number of elements of one result.
struct ReductionFormulas {
  std::string map;     // of the inputs; `i` is the index of the element among those of its result
  std::string reduce;  // of `a` and `b`; must be associative and commutative
  std::string post;    // of `a`, the reduced value
  std::optional<std::string> identity =
    {};                   // the value of a reduction of no elements; without it, such a one is an error
  std::string type = {};  // of a and b: a dtype or placeholder; that of the first output by default
};

struct ReductionAxes {
  std::optional<std::vector<int64_t>> axes = {};  // all by default
  bool keepdims = false;
};

// The order of the combinations depends on the shape only: results are the same each time and on every device.
class STRATA_API ReductionKernel {
 public:
  // Parameters in CuPy's notation, as for Elementwise; 16-bit floats are computed in float.
  ReductionKernel(const std::string& inputs, const std::string& outputs, ReductionFormulas formulas, std::string name,
                  std::vector<std::string> options = {});

  const std::string& name() const;
  const std::vector<ElementwiseParameter>& inputs() const;
  const std::vector<ElementwiseParameter>& outputs() const;

  // Inputs broadcast, as for Elementwise. Throws Index for an axis out of range, Value for a reduction of no elements
  // without an identity.
  std::vector<Tensor> operator()(std::span<const Operand> inputs, const ReductionAxes& axes = {},
                                 std::span<const Tensor> outputs = {}) const;
  std::vector<Tensor> operator()(std::initializer_list<Operand> inputs, const ReductionAxes& axes = {}) const {
    return (*this)(std::span(inputs.begin(), inputs.size()), axes);
  }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::cuda
