// The device kernels of pointwise ops, copies and fills. Each kernel supports all dtypes and layouts.
#pragma once
#include "record/formula.h"

namespace strata::cuda {

// The operands of a formula: tensors of one device, and numbers and members as bits in the compute type.
struct FormulaOperands {
  const TensorImpl* tensor[kMaxOperands];  // null: a number
  uint64_t number[kMaxOperands], members[kMaxMembers];
};
// Computes a formula into a tensor on a device. `common`: the promoted dtype of the operands.
void run_formula(const Formula& f, DType common, const FormulaOperands& operands, const TensorImpl& out);
void run_pointwise(const Call& c);
void copy(const TensorImpl& to, const TensorImpl& from);  // on one device; broadcasts and converts
void fill(const TensorImpl& to, Scalar value);

}  // namespace strata::cuda
