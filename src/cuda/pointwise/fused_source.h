// The source of a fused pointwise kernel.
#pragma once
#include <bit>
#include <string>
#include <vector>

#include "record/fused.h"

namespace strata::cuda {

// How a kernel reads a tensor: by the number of the element, as one value for all elements, or by strides.
enum class FusedAccess : uint8_t { Flat, One, Strided };

// What the source of a kernel depends on, besides the formulas.
struct FusedLayout {
  std::vector<FusedAccess> access;  // of each tensor
  int dims = 0;                     // of the strided tensors, after merging
  int items = 0;                    // elements of a vector
  int vectors = 0;                  // of a thread

  size_t strided() const;  // number of strided tensors
};

// Elements of a vector and vectors of a thread: accesses of 16 bytes, and enough of them in flight.
void choose_vectors(const FusedProgram& program, FusedLayout& layout);

// CUDA C++ with a kernel `fused`. Its parameters are those of cuda/pointwise/fused.cuh, the numbers in the order of for_each_number.
std::string fused_source(const FusedProgram& program, const FusedLayout& layout);

// Calls f(bits) for all numbers of the program: of each step the operands that are numbers, then the members or the op's own.
template <class F> void for_each_number(const FusedProgram& program, const F& f) {
  for (const FusedStep& s : program.steps) {
    for (int k = 0; k < s.inputs(); ++k)
      if (s.from[k].kind == FusedOperand::Kind::Number) f(s.from[k].number);
    for (int k = 0; s.formula && k < s.formula->members; ++k) f(s.members[k]);
    if (s.formula || s.output != 0) continue;
    for (const double number : s.rows->gpu->numbers)
      f(program.compute == DType::F64 ? std::bit_cast<int64_t>(number)
                                      : int64_t{std::bit_cast<uint32_t>(static_cast<float>(number))});
  }
}

}  // namespace strata::cuda
