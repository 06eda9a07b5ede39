// The source of a fused kernel with ops on rows.
#pragma once
#include <string>
#include <vector>

#include "record/fused.h"

namespace strata::cuda {

// How a kernel reads a tensor: all elements in order, to registers or to shared memory; one value; the same elements for all rows;
// by strides; values per row.
enum class RowAccess : uint8_t { Flat, Staged, One, Shared, Strided, Stat };

// What the source of a kernel depends on, besides the ops.
struct FusedRowLayout {
  std::vector<RowAccess> access;  // of each tensor
  int strided = 0, dims = 0;      // strided tensors, and their dimensions after merging
  int vectors = 0;                // of eight elements, of a thread
  int block = 0;                  // threads of a block
  int blocks = 1;                 // of a multiprocessor, at least
};

// CUDA C++ with a kernel `fused`. Its parameters are those of cuda/pointwise/fused_rows.cuh, the numbers in the order of
// for_each_number.
std::string fused_rows_source(const FusedProgram& program, const FusedRowLayout& layout);

}  // namespace strata::cuda
