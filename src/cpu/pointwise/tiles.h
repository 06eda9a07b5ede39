// Fused pointwise ops: a list of formulas computed tile by tile, so that intermediate results stay in the L1 cache. The loops
// are those of the single ops, so the results have the same bits.
#pragma once
#include <vector>

#include "record/formula.h"

namespace strata::cpu {

// An operand of a step: a number, the result of an earlier step, or a tensor of the program.
struct TileOperand {
  enum class Kind : uint8_t { Number, Step, Tensor } kind = Kind::Number;
  size_t index = 0;    // of the step or tensor
  int64_t number = 0;  // its bits in the compute type
};

struct TileStep {
  const Formula* formula = nullptr;
  DType type = DType::F32;  // of the result: values are rounded to it
  TileOperand from[kMaxOperands];
  int64_t members[kMaxMembers];  // bits in the compute type
  std::byte* to = nullptr;       // memory for the result; null: only later steps need it
};

struct TileProgram {
  DType compute = DType::F32;   // float32, float64 or int64: the type of all loops
  std::vector<int64_t> shape;   // of all results, which are contiguous
  std::vector<Tensor> tensors;  // operands from outside; they broadcast to the shape
  std::vector<TileStep> steps;
};

void run_tiles(const TileProgram& program);

// The loop of a formula for float, double or int64_t; null if it is not compiled.
template <class T> Loop<T> tile_loop(const Formula& f) {
  if constexpr (std::is_same_v<T, float>) return f.loops.f32;
  else if constexpr (std::is_same_v<T, double>) return f.loops.f64;
  else return f.loops.i64;
}

}  // namespace strata::cpu
