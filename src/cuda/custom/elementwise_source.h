// The text of elementwise kernels: parameters and formulas read, CUDA C++ written.
#pragma once
#include "cuda/common/axes_params.h"
#include "cuda/custom/elementwise.h"

namespace strata::cuda {

bool is_dtype_name(std::string_view type);  // other types are placeholders

// "T x, float32 y" of `what`, with names that are valid and differ from `taken`.
std::vector<ElementwiseParameter> read_parameters(const std::string& text, const char* what,
                                                  std::vector<std::string>& taken);

struct Formula {
  std::string inputs, outputs;  // in the notation of read_parameters
};
Formula read_formula(const std::string& formula);

// One parameter of a kernel to be written.
struct ElementwiseSlot {
  const ElementwiseParameter* parameter;
  DType type;      // of the variable in the operation
  DType stored;    // of the tensor; not used for a number
  bool is_number;  // passed by value
};

// Parts of generated kernels. A number is a parameter strata_v_<name>.
const char* kernel_prelude();                 // conversions of 16-bit floats
const char* c_type(DType t, bool in_memory);  // of an element in memory, or of a variable
std::string placeholder_types(std::span<const ElementwiseSlot> inputs, std::span<const ElementwiseSlot> outputs);
std::string declared(const ElementwiseSlot& slot, const std::string& element);  // the variable of an input

// `strided`: takes a StridedLayout; `wide`: more than 2^31 - 1 elements.
std::string elementwise_source(const std::string& name, const std::vector<ElementwiseSlot>& inputs,
                               const std::vector<ElementwiseSlot>& outputs, const std::string& operation, bool strided,
                               bool wide);

}  // namespace strata::cuda
