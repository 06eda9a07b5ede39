// A group of pointwise ops that is computed in one pass (dispatch/deferred.h), as all back ends get it.
#pragma once
#include <vector>

#include "record/formula.h"

namespace strata {

// An operand of a step: a number, the result of an earlier step, or a tensor of the program.
struct FusedOperand {
  enum class Kind : uint8_t { Number, Step, Tensor } kind = Kind::Number;
  size_t index = 0;    // of the step or tensor
  int64_t number = 0;  // its bits in the compute type
};

struct FusedStep {
  const Formula* formula = nullptr;
  DType type = DType::F32;  // of the result: values are rounded to it
  FusedOperand from[kMaxOperands];
  int64_t members[kMaxMembers];  // bits in the compute type
  std::byte* to = nullptr;       // memory for the result; null: only later steps need it
};

struct FusedProgram {
  Device device;
  DType compute = DType::F32;   // float32 or float64: the type of all formulas
  std::vector<int64_t> shape;   // of all results, which are contiguous
  std::vector<Tensor> tensors;  // operands from outside; they broadcast to the shape
  std::vector<FusedStep> steps;
};

}  // namespace strata
