// The operands of one call of a kernel that is written from formulas: device, dtypes and broadcast shape.
#pragma once
#include <map>

#include "cuda/custom/compile.h"
#include "cuda/custom/elementwise_source.h"

namespace strata::cuda {

struct Operands {
  std::string name;  // of the kernel, for messages
  Args args;
  Device device{DeviceType::Cpu, -1};
  std::map<std::string, DType> types;  // of the placeholders and dtypes that the inputs name
  std::vector<ElementwiseSlot> inputs, outputs;
  std::vector<const TensorImpl*> tensors;  // of inputs that are not numbers, then of outputs
  std::vector<Scalar> numbers;             // one per input; used for numbers only
  Ref<TensorImpl> shape;                   // no memory: the broadcast shape

  // Reads the inputs. Throws Type for a wrong number of operands or a dtype that is not the declared one, Runtime for
  // tensors on two devices or shapes that do not broadcast.
  Operands(const std::string& kernel, const std::vector<ElementwiseParameter>& parameters,
           std::span<const Operand> operands, std::span<const Tensor> outs);

  // The outputs: `given` if it has any, after checks, otherwise new ones.
  std::vector<Tensor> results(const std::vector<ElementwiseParameter>& parameters, std::span<const Tensor> given,
                              const TensorImpl& result_shape);
  DType type_of(const std::string& type) const { return types.contains(type) ? types.at(type) : dtype_from_name(type); }
  std::vector<Argument> arguments() const;  // the inputs
  std::string key() const;                  // of the device and the dtypes, for compiled kernels

 private:
  void find_device(std::span<const Tensor> outs);
  void resolve(const std::vector<ElementwiseParameter>& parameters);
  void check_out(const ElementwiseParameter& p, const TensorImpl& out, DType type,
                 const TensorImpl& result_shape) const;
};

// No two elements of an output share memory, and no other operand overlaps it, except the same view of the same memory
// where that is allowed. Throws Runtime.
void check_output_memory(const std::string& kernel, const std::string& output, const TensorImpl& out,
                         std::span<const TensorImpl* const> tensors, bool allow_same_view = true);

// The types of outputs must be dtypes or types of inputs.
void check_output_types(const std::string& name, const std::vector<ElementwiseParameter>& inputs,
                        const std::vector<ElementwiseParameter>& outputs);

}  // namespace strata::cuda
