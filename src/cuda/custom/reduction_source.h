// The text of reduction kernels, and the parameter that describes one launch.
#pragma once
#include "cuda/custom/elementwise_source.h"
#include "cuda/custom/reduction.h"

namespace strata::cuda {

constexpr int kReductionThreads = 256;

// Passed by value as strata_Layout, followed by kept_stride and gone_stride of each tensor. The kept dimensions index the
// results, the reduced ones ("gone") the elements of a result; the innermost dimension is first.
struct ReductionLayout {
  int64_t kept, gone;            // number of results, and of elements (or partial results) of one
  int64_t elements;              // of a result: `n`
  int64_t chunk;                 // elements of a block
  int64_t threads;               // of a block for each result
  int64_t rows;                  // 1: neighbouring threads reduce one result; 0: they have neighbouring results
  int64_t kept_dims, gone_dims;  // after merging
  int64_t kept_size[kAxesMost], gone_size[kAxesMost];
};

// Kernels <name> and <name>_partials. The first one reduces chunks; if there are several of a result, it writes partial
// results, which the second one reduces.
std::string reduction_source(const std::string& name, std::span<const ElementwiseSlot> inputs,
                             std::span<const ElementwiseSlot> outputs, const ReductionFormulas& formulas, DType type,
                             bool wide);

}  // namespace strata::cuda
