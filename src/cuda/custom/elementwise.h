// Elementwise kernels from a formula: broadcasting, promotion of dtypes, any strides. One kernel is compiled per
// combination of dtypes when it is first needed.
//
//   const auto axpy = cuda::Elementwise::of("out = a * x + y");
//   const Tensor z = axpy({2.0, x, y})[0];
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "record/args.h"

namespace strata::cuda {

struct ElementwiseParameter {
  std::string type;  // a dtype's name, or a placeholder: its operands are promoted to a common dtype
  std::string name;
};

class STRATA_API Elementwise {
 public:
  // Parameters in CuPy's notation: "float32 x, T y". `operation`: C++ statements that assign the outputs; `i` is the index
  // of the element, `n` the number of elements, and a placeholder names its type. 16-bit floats are computed in float.
  Elementwise(const std::string& inputs, const std::string& outputs, std::string operation, std::string name,
              std::vector<std::string> options = {});
  // From a formula "out = a * x + y", or several separated by semicolons: what is assigned without a type is an output,
  // the other variables are the inputs, in the order of their first use. All have one common dtype.
  static Elementwise of(const std::string& formula, std::string name = "elementwise",
                        std::vector<std::string> options = {});

  const std::string& name() const;
  const std::vector<ElementwiseParameter>& inputs() const;
  const std::vector<ElementwiseParameter>& outputs() const;

  // Inputs are tensors of one device and numbers; tensors on meta give shapes and dtypes. `outputs`: empty, or a tensor for each output to write to. Throws Type
  // for a wrong number of operands or a dtype that is not the declared one, Runtime for shapes that do not broadcast.
  std::vector<Tensor> operator()(std::span<const Operand> inputs, std::span<const Tensor> outputs = {}) const;
  std::vector<Tensor> operator()(std::initializer_list<Operand> inputs) const {
    return (*this)(std::span(inputs.begin(), inputs.size()));
  }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::cuda
