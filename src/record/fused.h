// A group of ops that is computed in one pass (dispatch/deferred.h), as all back ends get it.
#pragma once
#include <memory>
#include <vector>

#include "record/formula.h"
#include "record/rows.h"

namespace strata {

// An operand of a step: a number, the result of an earlier step, or a tensor of the program.
struct FusedOperand {
  enum class Kind : uint8_t { Number, Step, Tensor } kind = Kind::Number;
  size_t index = 0;    // of the step or tensor
  int64_t number = 0;  // its bits in the compute type
};

// A pointwise op, or one result of an op on rows. The results of such an op are steps in a row, the first of which has the operands.
// Devices get pointwise ops with results of the program's shape only.
struct FusedStep {
  const Formula* formula = nullptr;  // null: an op on rows
  std::shared_ptr<const RowOp> rows;
  int output = 0;           // of the op on rows
  RowPart part;             // what a block holds of the result
  DType type = DType::F32;  // of the result: values are rounded to it
  FusedOperand from[kMaxOperands];
  int64_t members[kMaxMembers];  // bits in the compute type
  std::byte* to = nullptr;       // memory for the result; null: only later steps need it

  int inputs() const { return formula ? formula->inputs : output == 0 ? static_cast<int>(rows->in.size()) : 0; }
};
static_assert(kMaxRowInputs <= kMaxOperands);

struct FusedProgram {
  Device device;
  DType compute = DType::F32;   // float32 or float64: the type of all formulas
  std::vector<int64_t> shape;   // of all results with elements, which are contiguous
  int64_t row = 1;              // elements of a row
  std::vector<Tensor> tensors;  // operands from outside; those with elements broadcast to the shape
  std::vector<RowPart> parts;   // of the tensors
  std::vector<FusedStep> steps;
};

}  // namespace strata
